// bench/support/durability.cpp -- how durable the engine's commits are.
#include "bench/support/durability.h"

namespace tmh::bench {

namespace {

// ---- THE ONE PLACE -------------------------------------------------------------------------------------------------
// It compiles with and without the durable interface (DomainOptions::durability of an enum class with kNone, kBuffered,
// kStrict; Counters::log_bytes and ::log_flushes) and uses what is there. When the interface is final, each of these
// templates becomes its first branch.
template <class Options>
constexpr bool kHasDurability = requires(Options options) {
  options.durability;
};

template <class Options>
void set(Options *options, Durable durable) {
  if constexpr (kHasDurability<Options>) {
    using Durability = decltype(options->durability);
    options->durability = durable == Durable::kStrict     ? Durability::kStrict
                          : durable == Durable::kBuffered ? Durability::kBuffered
                                                          : Durability::kNone;
  }
}

template <class All>
LogCounters log_of(const All &counters) noexcept {
  if constexpr (requires { counters.log_bytes; }) {
    return {counters.log_bytes, counters.log_flushes};
  } else {
    return {};
  }
}
// --------------------------------------------------------------------------------------------------------------------

}  // namespace

const char *to_string(Durable durable) noexcept {
  switch (durable) {
    case Durable::kNone:
      return "none";
    case Durable::kBuffered:
      return "buffered";
    case Durable::kStrict:
      return "strict";
  }
  return "?";
}

bool durability_available() noexcept { return kHasDurability<DomainOptions>; }

std::vector<Durable> durabilities() {
  if (!durability_available()) return {Durable::kNone};
  return {Durable::kNone, Durable::kBuffered, Durable::kStrict};
}

std::string durability_note(Durable durable) {
  if (durable == Durable::kNone) return "not durable";
  if (!durability_available()) return "NOT durable: this library has no log yet";
  return durable == Durable::kBuffered ? "not durable at return" : "";
}

void set_durability(DomainOptions *options, Durable durable) { set(options, durable); }

LogCounters log_counters(const Counters &counters) noexcept { return log_of(counters); }

}  // namespace tmh::bench
