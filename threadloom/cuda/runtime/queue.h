// The work of one stream: in order, by a thread of its own, which starts with the first work.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace loom {

class Queue {
 public:
  Queue() = default;
  Queue(const Queue&) = delete;
  // Waits for all work.
  ~Queue() {
    {
      std::lock_guard<std::mutex> guard(mutex_);
      closing_ = true;
    }
    changed_.notify_all();
    if (worker_.joinable()) worker_.join();
  }

  void add(std::function<void()> work) {
    {
      std::lock_guard<std::mutex> guard(mutex_);
      waiting_.push_back(std::move(work));
      if (!worker_.joinable()) worker_ = std::thread([this] { serve(); });
    }
    changed_.notify_all();
  }
  bool idle() {
    std::lock_guard<std::mutex> guard(mutex_);
    return waiting_.empty() && !busy_;
  }
  void wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return waiting_.empty() && !busy_; });
  }
  // Whether the calling thread is the worker of some queue: what it asks for happens at once.
  static bool& inside() {
    static thread_local bool yes = false;
    return yes;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  bool busy_ = false, closing_ = false;
  std::thread worker_;

  void serve() {
    inside() = true;
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return !waiting_.empty() || closing_; });
      if (waiting_.empty()) return;
      std::function<void()> work = std::move(waiting_.front());
      waiting_.pop_front();
      busy_ = true;
      lock.unlock();
      work();
      work = nullptr;
      lock.lock();
      busy_ = false;
      changed_.notify_all();
    }
  }
};

}  // namespace loom
