// Sums of blocks by shared memory and barriers, then one atomic add for each block; checked against the CPU.
#include <cmath>
#include <cstdio>
#include <vector>

constexpr int threads = 256;

template <typename T>
__global__ void block_sums(const T *x, double *total, int n) {
    __shared__ double part[threads];
    double own = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) own += x[i];
    part[threadIdx.x] = own;
    __syncthreads();
    for (int half = threads / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(total, part[0]);
}

int main() {
    const int n = 1 << 24;
    std::vector<float> x(n);
    double want = 0;
    for (int i = 0; i < n; ++i) want += x[i] = float(i % 1000) * 0.001f;

    float *device_x, milliseconds;
    double *device_total, total = 0;
    cudaMalloc(&device_x, n * sizeof(float));
    cudaMalloc(&device_total, sizeof(double));
    cudaMemcpy(device_x, x.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(device_total, &total, sizeof(double), cudaMemcpyHostToDevice);

    cudaEvent_t start, stop;
    cudaEventCreate(&start);
    cudaEventCreate(&stop);
    block_sums<<<512, threads>>>(device_x, device_total, n);  // once to warm up
    cudaMemcpy(device_total, &total, sizeof(double), cudaMemcpyHostToDevice);
    cudaEventRecord(start);
    block_sums<<<512, threads>>>(device_x, device_total, n);
    cudaEventRecord(stop);
    cudaEventSynchronize(stop);
    cudaEventElapsedTime(&milliseconds, start, stop);
    cudaMemcpy(&total, device_total, sizeof(double), cudaMemcpyDeviceToHost);

    const double error = std::fabs(total - want) / want;
    std::printf("error %.3g ms %.4f bytes %zu\n", error, milliseconds, n * sizeof(float));
    return error < 1e-10 && cudaGetLastError() == cudaSuccess ? 0 : 1;
}
