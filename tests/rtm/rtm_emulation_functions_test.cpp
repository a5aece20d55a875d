// tests/rtm/rtm_emulation_functions_test.cpp -- differential test: functions of libm, libc, the C++
// library and fmt inside and outside of a transaction.
// Invariant: a function's results for fixed arguments are the same inside; it commits after at most
// a few attempts, between which it runs outside once more (first touches of pages abort); nothing
// in it is unsupported. At least 200 functions.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstring>
#include <cwchar>
#include <deque>
#include <list>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include <tmh/rtm_emulation.h>

#include "tests/rtm/rtm.h"

namespace {

using tmh::test::attempt;
using tmh::test::kRtmCommitted;

// What a case computed, as bytes; no padding gets in.
class Digest {
 public:
  template <class T>
  void add(T value) {
    std::size_t bytes = sizeof value;
    if constexpr (std::is_same_v<T, long double>) bytes = 10;
    unsigned char raw[sizeof value];
    std::memcpy(raw, &value, sizeof value);
    for (std::size_t i = 0; i < bytes; ++i) hash_ = (hash_ ^ raw[i]) * 0x100'0000'01B3;
  }
  void add_text(const char *text) {
    for (; *text != 0; ++text) add(*text);
  }
  [[nodiscard]] std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = 0xCBF2'9CE4'8422'2325;
};

struct Case {
  const char *name;
  void (*run)(Digest *);
};

template <class T>
constexpr std::array<T, 9> kArguments = {T(0.1), T(-0.7), T(0.99), T(1.5), T(-2.25),
                                         T(7.0), T(33.3), T(1e-9), T(300)};

// Sinks for optimizers: arguments come from memory.
template <class T>
T hidden(T value) {
  asm volatile("" : "+m"(value));
  return value;
}

#define UNARY_OF(type, name)                                                \
  Case {                                                                    \
#name, [](Digest *digest) {                                               \
      for (const type x : kArguments<type>) digest->add(::name(hidden(x)));   \
    } \
  }
#define BINARY_OF(type, name)                                                              \
  Case {                                                                                   \
#name, [](Digest *digest) {                                                              \
      for (const type x : kArguments<type>) digest->add(::name(hidden(x), hidden<type>(1.75))); \
    } \
  }
#define UNARY(name) UNARY_OF(double, name), UNARY_OF(float, name##f), UNARY_OF(long double, name##l)
#define BINARY(name) \
  BINARY_OF(double, name), BINARY_OF(float, name##f), BINARY_OF(long double, name##l)

const Case kMath[] = {
    UNARY(sin),        UNARY(cos),       UNARY(tan),   UNARY(asin),      UNARY(acos),
    UNARY(atan),       UNARY(sinh),      UNARY(cosh),  UNARY(tanh),      UNARY(asinh),
    UNARY(acosh),      UNARY(atanh),     UNARY(exp),   UNARY(exp2),      UNARY(expm1),
    UNARY(log),        UNARY(log2),      UNARY(log10), UNARY(log1p),     UNARY(sqrt),
    UNARY(cbrt),       UNARY(erf),       UNARY(erfc),  UNARY(tgamma),    UNARY(floor),
    UNARY(ceil),       UNARY(round),     UNARY(trunc), UNARY(rint),      UNARY(lround),
    UNARY(llrint),     UNARY(logb),      UNARY(fabs),  UNARY(nearbyint), UNARY(ilogb),
    UNARY(j0),         UNARY(y1),        BINARY(pow),  BINARY(atan2),    BINARY(fmod),
    BINARY(hypot),     BINARY(fmax),     BINARY(fmin), BINARY(fdim),     BINARY(remainder),
    BINARY(nextafter), BINARY(copysign),
};

char g_text[256] = "The quick brown fox jumps over the lazy dog; 12345, -67, 0x1F, 3.25e2";
char g_room[512];

#define CASE(name, ...)        \
  Case {                       \
    name, [](Digest *digest) { \
      (void)digest;            \
      __VA_ARGS__              \
    }                          \
  }

int compare_ints(const void *left, const void *right) {
  return *static_cast<const int *>(left) - *static_cast<const int *>(right);
}

const Case kLibc[] = {
    CASE("strlen", digest->add(::strlen(g_text));),
    CASE("strnlen", digest->add(::strnlen(g_text, 20));),
    CASE("strcmp", digest->add(::strcmp(g_text, "The quick brown fax") > 0);),
    CASE("strncmp", digest->add(::strncmp(g_text, "The quack", 6));),
    CASE("strcasecmp", digest->add(::strcasecmp(g_text, "the QUICK") > 0);),
    CASE("strchr", digest->add(::strchr(g_text, 'q') - g_text);),
    CASE("strrchr", digest->add(::strrchr(g_text, 'o') - g_text);),
    CASE("strchrnul", digest->add(::strchrnul(g_text, '#') - g_text);),
    CASE("strstr", digest->add(::strstr(g_text, "lazy") - g_text);),
    CASE("strcasestr", digest->add(::strcasestr(g_text, "LAZY") - g_text);),
    CASE("strspn", digest->add(::strspn(g_text, "The quick"));),
    CASE("strcspn", digest->add(::strcspn(g_text, ";,"));),
    CASE("strpbrk", digest->add(::strpbrk(g_text, "0123456789") - g_text);),
    CASE("strcpy", ::strcpy(g_room, g_text); digest->add_text(g_room);),
    CASE("strncpy", ::strncpy(g_room, g_text, 30); g_room[30] = 0; digest->add_text(g_room);),
    CASE("stpcpy", digest->add(::stpcpy(g_room, g_text) - g_room); digest->add_text(g_room);),
    CASE("strcat", g_room[0] = 0; ::strcat(g_room, g_text); ::strcat(g_room, "!");
         digest->add_text(g_room);),
    CASE("memcpy", ::memcpy(g_room, g_text, hidden<std::size_t>(70)); digest->add_text(g_room);),
    CASE("memmove", ::strcpy(g_room, g_text);
         ::memmove(g_room + 3, g_room, hidden<std::size_t>(60)); digest->add_text(g_room);),
    CASE("mempcpy",
         digest->add(static_cast<char *>(::mempcpy(g_room, g_text, hidden<std::size_t>(65))) -
                     g_room);),
    CASE("memset", ::memset(g_room, 'x', hidden<std::size_t>(400)); g_room[400] = 0;
         digest->add_text(g_room);),
    CASE("memcmp",
         digest->add(::memcmp(g_text, "The quick brown fux", hidden<std::size_t>(19)) < 0);),
    CASE("memchr",
         digest->add(static_cast<char *>(::memchr(g_text, 'z', sizeof g_text)) - g_text);),
    CASE("memrchr",
         digest->add(static_cast<const char *>(::memrchr(g_text, 'e', hidden<std::size_t>(60))) -
                     g_text);),
    CASE("memmem",
         digest->add(static_cast<char *>(::memmem(g_text, hidden<std::size_t>(70), "dog", 3)) -
                     g_text);),
    CASE("rawmemchr", digest->add(static_cast<char *>(::rawmemchr(g_text, ';')) - g_text);),
    CASE("strtol", digest->add(::strtol(hidden("-12345678901"), nullptr, 10));),
    CASE("strtoul", digest->add(::strtoul(hidden("0xFFEEDD"), nullptr, 0));),
    CASE("strtoll", digest->add(::strtoll(hidden("777"), nullptr, 8));),
    CASE("strtod", digest->add(::strtod(hidden("3.14159265358979e-5"), nullptr));),
    CASE("strtof", digest->add(::strtof(hidden("2.71828"), nullptr));),
    CASE("strtold", digest->add(::strtold(hidden("1.0000000000000000001"), nullptr));),
    CASE("atoi", digest->add(::atoi(hidden("4711")));),
    CASE("atof", digest->add(::atof(hidden("47.11")));),
    CASE("snprintf integers",
         ::snprintf(g_room, sizeof g_room, "%d %x %lu %5s|%-5s|", 42, 0xBEEFu, 123456789ul, "ab",
                    "cd");
         digest->add_text(g_room);),
    CASE("snprintf floating", ::snprintf(g_room, sizeof g_room, "%.10g %e %a", 3.25, 1e100, 0.1);
         digest->add_text(g_room);),
    CASE("sscanf", int a = 0; double b = 0; digest->add(::sscanf("17 2.5", "%d %lf", &a, &b));
         digest->add(a); digest->add(b);),
    CASE("qsort", int v[] = {5, 3, 9, 1, 7, 2, 8, 6, 4, 0};
         ::qsort(v, 10, sizeof(int), compare_ints); for (int i : v) digest->add(i);),
    CASE("bsearch", int v[] = {1, 3, 5, 7, 9}; int k = 7;
         digest->add(static_cast<int *>(::bsearch(&k, v, 5, sizeof(int), compare_ints)) - v);),
    CASE("isalpha to toupper",
         for (char c : g_text) { digest->add(::isalpha(c) != 0); digest->add(::toupper(c)); }),
    CASE("div", const ::div_t r = ::div(hidden(1234567), 89); digest->add(r.quot);
         digest->add(r.rem);),
    CASE("ffsll", digest->add(::ffsll(hidden(0x4000'0000'0000ll)));),
    CASE("rand_r", unsigned s = 5; for (int i = 0; i < 5; ++i) digest->add(::rand_r(&s));),
    CASE("nrand48", unsigned short s[3] = {1, 2, 3};
         for (int i = 0; i < 5; ++i) digest->add(::nrand48(s));),
    CASE("wcslen", digest->add(::wcslen(hidden(L"wide characters")));),
    CASE("wcscmp", digest->add(::wcscmp(hidden(L"abc"), L"abd") < 0);),
    CASE("wmemset", static wchar_t w[64]; ::wmemset(w, L'y', 63); digest->add(::wcslen(w));),
    CASE("strverscmp", digest->add(::strverscmp("a9", "a10") < 0);),
    CASE("strtok_r", ::strcpy(g_room, g_text); char *at = nullptr;
         for (char *t = ::strtok_r(g_room, " ", &at); t != nullptr;
              t = ::strtok_r(nullptr, " ", &at)) digest->add_text(t);),
    CASE("frexp", int e = 0; digest->add(::frexp(hidden(1234.5), &e)); digest->add(e);),
    CASE("modf", double i = 0; digest->add(::modf(hidden(-12.75), &i)); digest->add(i);),
    CASE("ldexp", digest->add(::ldexp(hidden(0.7), 12));),
    CASE("scalbln", digest->add(::scalbln(hidden(0.7), -5l));),
    CASE("fma", digest->add(::fma(hidden(1.1), 2.2, 3.3));),
    CASE("remquo", int q = 0; digest->add(::remquo(hidden(17.3), 2.1, &q)); digest->add(q);),
    CASE("lgamma_r", int s = 0; digest->add(::lgamma_r(hidden(4.5), &s)); digest->add(s);),
    CASE("sincos", double s = 0, c = 0; ::sincos(hidden(1.25), &s, &c); digest->add(s);
         digest->add(c);),
    CASE("swab", ::swab(g_text, g_room, 40); g_room[40] = 0; digest->add_text(g_room);),
    CASE("malloc, realloc, free", char *m = static_cast<char *>(::malloc(40));
         ::strcpy(m, "in the heap"); m = static_cast<char *>(::realloc(m, 80));
         digest->add_text(m); ::free(m);),
};

template <class Container>
void sum(Digest *digest, const Container &container) {
  for (const auto &element : container) digest->add(element);
}
std::vector<int> numbers(int count) {
  std::vector<int> values(static_cast<std::size_t>(count));
  std::uint32_t x = 12345;
  for (int &value : values) value = static_cast<int>((x = x * 1664525 + 1013904223) >> 16);
  return values;
}

const Case kCpp[] = {
    CASE("vector", std::vector<int> v; for (int i = 0; i < 100; ++i) v.push_back(i * i);
         sum(digest, v);),
    CASE("sort", auto v = numbers(200); std::sort(v.begin(), v.end()); sum(digest, v);),
    CASE("stable_sort", auto v = numbers(100); std::stable_sort(v.begin(), v.end());
         sum(digest, v);),
    CASE("partial_sort", auto v = numbers(100);
         std::partial_sort(v.begin(), v.begin() + 10, v.end());
         for (std::size_t i = 0; i < 10; ++i) digest->add(v[i]);),
    CASE("nth_element", auto v = numbers(99); std::nth_element(v.begin(), v.begin() + 49, v.end());
         digest->add(v[49]);),
    CASE("make_heap", auto v = numbers(60); std::make_heap(v.begin(), v.end());
         std::sort_heap(v.begin(), v.end()); sum(digest, v);),
    CASE("accumulate", const auto v = numbers(100);
         digest->add(std::accumulate(v.begin(), v.end(), 0l));),
    CASE("inner_product", const auto v = numbers(50);
         digest->add(std::inner_product(v.begin(), v.end(), v.begin(), 0l));),
    CASE("partial_sum", auto v = numbers(50); std::partial_sum(
             v.begin(), v.end(), v.begin(), [](int a, int b) { return (a + b) & 0xFFFF; });
         sum(digest, v);),
    CASE("reverse and rotate", auto v = numbers(50); std::reverse(v.begin(), v.end());
         std::rotate(v.begin(), v.begin() + 7, v.end()); sum(digest, v);),
    CASE("unique", auto v = numbers(80); for (int &i
                                              : v) i %= 4;
         v.erase(std::unique(v.begin(), v.end()), v.end()); sum(digest, v);),
    CASE("next_permutation", std::array<int, 6> a = {0, 1, 2, 3, 4, 5};
         for (int i = 0; i < 100; ++i) std::next_permutation(a.begin(), a.end()); sum(digest, a);),
    CASE("map", std::map<int, int> m; for (int i
                                           : numbers(60)) m[i] += i;
         for (const auto &[k, v]
              : m) digest->add(k + v);),
    CASE("set", const auto v = numbers(60); std::set<int> s(v.begin(), v.end()); sum(digest, s);
         s.erase(s.begin()); digest->add(s.size());),
    CASE("unordered_map", std::unordered_map<int, int> m; for (int i
                                                               : numbers(60)) m[i] = i;
         long t = 0; for (const auto &[k, v]
                          : m) t += k ^ v;
         digest->add(t); digest->add(m.size());),
    CASE("deque", std::deque<int> d; for (int i
                                          : numbers(50))(i & 1) != 0
                                         ? d.push_back(i)
                                         : d.push_front(i);
         sum(digest, d);),
    CASE("list", std::list<int> l; for (int i
                                        : numbers(30)) l.push_back(i);
         l.sort(); sum(digest, l);),
    CASE("string", std::string s; for (int i = 0; i < 30; ++i) s += std::to_string(i * 37);
         digest->add_text(s.c_str());),
    CASE("string::find", const std::string s = g_text; digest->add(s.find("fox"));
         digest->add(s.rfind('o')); digest->add(s.find_first_of("xyz"));),
    CASE("string::replace", std::string s = g_text; s.replace(4, 5, "slow and careful");
         s.insert(0, "> "); digest->add_text(s.c_str());),
    CASE("to_chars", std::to_chars_result r = std::to_chars(g_room, g_room + 100, 3.0e-7);
         *r.ptr = 0; digest->add_text(g_room);),
    CASE("from_chars", double d = 0; const char *t = "2.5e10"; std::from_chars(t, t + 6, d);
         digest->add(d);),
    CASE("stod", digest->add(std::stod("1.25e-3")); digest->add(std::stoi("77"));),
    CASE("gcd, lcm", digest->add(std::gcd(hidden(123456), 7890));
         digest->add(std::lcm(hidden(12), 18));),
    CASE("hash", digest->add(std::hash<std::string>()(g_text));),
    CASE("beta", digest->add(std::beta(hidden(2.5), 1.5));),
    CASE("legendre", digest->add(std::legendre(3u, hidden(0.3)));),
    CASE("riemann_zeta", digest->add(std::riemann_zeta(hidden(2.5)));),
    CASE("fmt::format_to integers", *fmt::format_to(g_room, "{} {:#x} {:>8}|", 4711, 255, -3) = 0;
         digest->add_text(g_room);),
    CASE("fmt::format_to floating",
         *fmt::format_to(g_room, "{} {:.3e} {:g}", 0.1, 12345.678, 1e-9) = 0;
         digest->add_text(g_room);),
};

class RtmEmulationFunctions : public testing::Test {
 protected:
  static void SetUpTestSuite() { ASSERT_GT(tmh_rtm_emulation_start(1), 0); }
};

constexpr int kAttempts = 40;  // each page touched for the first time costs one

__attribute__((noinline)) std::uint64_t outside(const Case &function) {
  Digest digest;
  function.run(&digest);
  return digest.value();
}

void compare(const Case *cases, std::size_t count, std::size_t *compared) {
  tmh_rtm_emulation_knobs knobs;
  tmh_rtm_emulation_get_knobs(&knobs);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t expected = outside(cases[i]);
    std::uint64_t found = 0;
    std::uint32_t status = 0;
    for (int attempts = 0; attempts < kAttempts && status != kRtmCommitted; ++attempts) {
      (void)outside(cases[i]);
      status = attempt([&] {
        Digest digest;
        cases[i].run(&digest);
        found = digest.value();
      });
    }
    EXPECT_EQ(status, kRtmCommitted) << cases[i].name;
    EXPECT_EQ(found, expected) << cases[i].name;
    ++*compared;
  }
}

TEST_F(RtmEmulationFunctions, DoTheSameInsideAndOutside) {
  std::size_t compared = 0;
  compare(kMath, std::size(kMath), &compared);
  compare(kLibc, std::size(kLibc), &compared);
  compare(kCpp, std::size(kCpp), &compared);
  EXPECT_GE(compared, 200u);
  std::printf("%zu functions were the same\n", compared);
  tmh_rtm_emulation_counters counters;
  tmh_rtm_emulation_get_counters(&counters);
  EXPECT_EQ(counters.unsupported, 0u);
  if (testing::Test::HasFailure()) tmh_rtm_emulation_report(1);
}

}  // namespace
