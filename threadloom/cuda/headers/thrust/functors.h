/* Function objects, and expressions of placeholders, such as 2 * _1 + _2. */
#pragma once
namespace thrust {
/* With a type both operands are converted to it first; without one they stay what they are. */
#define LOOM_FUNCTOR(name, result, of_any, expression)                                                                    \
  template <class T = void> struct name {                                                                                 \
    typedef T first_argument_type, second_argument_type;                                                                  \
    typedef result result_type;                                                                                           \
    __host__ __device__ constexpr result operator()(const T& x, const T& y) const { return expression; }                  \
  };                                                                                                                      \
  template <> struct name<void> {                                                                                         \
    template <class A, class B> __host__ __device__ constexpr of_any operator()(const A& x, const B& y) const { return expression; } \
  };
#define LOOM_ARITHMETIC(name, expression) LOOM_FUNCTOR(name, T, auto, expression)
#define LOOM_RELATION(name, expression) LOOM_FUNCTOR(name, bool, bool, expression)
LOOM_ARITHMETIC(plus, x + y)
LOOM_ARITHMETIC(minus, x - y)
LOOM_ARITHMETIC(multiplies, x * y)
LOOM_ARITHMETIC(divides, x / y)
LOOM_ARITHMETIC(modulus, x % y)
LOOM_ARITHMETIC(bit_and, x & y)
LOOM_ARITHMETIC(bit_or, x | y)
LOOM_ARITHMETIC(bit_xor, x ^ y)
LOOM_ARITHMETIC(maximum, x < y ? y : x)
LOOM_ARITHMETIC(minimum, y < x ? y : x)
LOOM_RELATION(logical_and, x && y)
LOOM_RELATION(logical_or, x || y)
LOOM_RELATION(equal_to, x == y)
LOOM_RELATION(not_equal_to, x != y)
LOOM_RELATION(less, x < y)
LOOM_RELATION(less_equal, x <= y)
LOOM_RELATION(greater, x > y)
LOOM_RELATION(greater_equal, x >= y)
#undef LOOM_ARITHMETIC
#undef LOOM_RELATION
#undef LOOM_FUNCTOR
template <class T = void> struct identity { template <class A> __host__ __device__ const A& operator()(const A& x) const { return x; } };
template <class T = void> struct negate { template <class A> __host__ __device__ A operator()(const A& x) const { return -x; } };
template <class T = void> struct square { template <class A> __host__ __device__ A operator()(const A& x) const { return x * x; } };
template <class T = void> struct logical_not { template <class A> __host__ __device__ bool operator()(const A& x) const { return !x; } };
template <class A, class R> struct unary_function { typedef A argument_type; typedef R result_type; };
template <class A, class B, class R> struct binary_function { typedef A first_argument_type; typedef B second_argument_type; typedef R result_type; };
template <class A = void, class B = void> struct project1st { template <class X, class Y> __host__ __device__ const X& operator()(const X& x, const Y&) const { return x; } };
template <class A = void, class B = void> struct project2nd { template <class X, class Y> __host__ __device__ const Y& operator()(const X&, const Y& y) const { return y; } };
template <class P> struct unary_negate {
  P p;
  template <class A> __host__ __device__ bool operator()(const A& x) const { return !p(x); }
};
template <class P> struct binary_negate {
  P p;
  template <class A, class B> __host__ __device__ bool operator()(const A& x, const B& y) const { return !p(x, y); }
};
template <class P> __host__ __device__ unary_negate<P> not1(const P& p) { return {p}; }
template <class P> __host__ __device__ binary_negate<P> not2(const P& p) { return {p}; }

/* ---- placeholders */
struct __loom_lazy {};
template <size_t n> struct __loom_place : __loom_lazy {
  template <class... A> __host__ __device__ std::tuple_element_t<n, std::tuple<A...>> operator()(const A&... values) const { return std::get<n>(std::tuple<const A&...>(values...)); }
};
template <class T> struct __loom_constant : __loom_lazy {
  T value;
  __host__ __device__ explicit __loom_constant(T value) : value(value) {}
  template <class... A> __host__ __device__ T operator()(const A&...) const { return value; }
};
template <class Op, class X, class Y> struct __loom_expression : __loom_lazy {
  X x;
  Y y;
  __host__ __device__ __loom_expression(X x, Y y) : x(x), y(y) {}
  template <class... A> __host__ __device__ auto operator()(const A&... values) const { return Op()(x(values...), y(values...)); }
};
template <class Op, class X> struct __loom_unary_expression : __loom_lazy {
  X x;
  __host__ __device__ explicit __loom_unary_expression(X x) : x(x) {}
  template <class... A> __host__ __device__ auto operator()(const A&... values) const { return Op()(x(values...)); }
};
template <class T> constexpr bool __loom_is_lazy = std::is_base_of<__loom_lazy, T>::value;
template <class T> using __loom_operand = std::conditional_t<__loom_is_lazy<T>, T, __loom_constant<T>>;
#define LOOM_LAZY(op, functor)                                                                                                          \
  template <class X, class Y, std::enable_if_t<__loom_is_lazy<X> || __loom_is_lazy<Y>, int> = 0>                                        \
  __host__ __device__ __loom_expression<functor<>, __loom_operand<X>, __loom_operand<Y>> operator op(X x, Y y) { return {__loom_operand<X>(x), __loom_operand<Y>(y)}; }
LOOM_LAZY(+, plus)
LOOM_LAZY(-, minus)
LOOM_LAZY(*, multiplies)
LOOM_LAZY(/, divides)
LOOM_LAZY(%, modulus)
LOOM_LAZY(&, bit_and)
LOOM_LAZY(|, bit_or)
LOOM_LAZY(^, bit_xor)
LOOM_LAZY(&&, logical_and)
LOOM_LAZY(||, logical_or)
LOOM_LAZY(==, equal_to)
LOOM_LAZY(!=, not_equal_to)
LOOM_LAZY(<, less)
LOOM_LAZY(<=, less_equal)
LOOM_LAZY(>, greater)
LOOM_LAZY(>=, greater_equal)
#undef LOOM_LAZY
template <class X, std::enable_if_t<__loom_is_lazy<X>, int> = 0> __host__ __device__ __loom_unary_expression<negate<>, X> operator-(X x) { return __loom_unary_expression<negate<>, X>(x); }
template <class X, std::enable_if_t<__loom_is_lazy<X>, int> = 0> __host__ __device__ __loom_unary_expression<logical_not<>, X> operator!(X x) { return __loom_unary_expression<logical_not<>, X>(x); }
namespace placeholders {
static constexpr __loom_place<0> _1;
static constexpr __loom_place<1> _2;
static constexpr __loom_place<2> _3;
static constexpr __loom_place<3> _4;
}  // namespace placeholders
}  // namespace thrust
