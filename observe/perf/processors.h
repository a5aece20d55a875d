// observe/perf/processors.h -- the nine processors with RTM whose events we know, and the codes.
// Shape:     config = umask << 8 | event; bit 32 IN_TX, bit 33 IN_TX_CP (perf's raw config on
//            Intel).
// Source:    hsw to spr: libpfm4 4.13's tables, with which tests/tools/perf_encoding_test.cpp
//            compares each code. emr, gnr, which libpfm4 4.13 lacks: Intel's event lists as Linux
//            has them, tools/perf/pmu-events/arch/x86/{emeraldrapids,graniterapids}/{memory,
//            virtual-memory}.json (RTM_RETIRED, TX_MEM, DTLB_*_MISSES); IN_TX: Linux
//            arch/x86/events/intel/core.c (cycles-t, cycles-ct).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace tmh::perf {

enum class Processor : std::uint8_t {
  kHsw,
  kBdw,
  kSkl,
  kClx,
  kIcl,
  kIcx,
  kSpr,
  kEmr,
  kGnr,
  kOther
};
inline constexpr std::size_t kProcessors = 9;
static_assert(kProcessors == static_cast<std::size_t>(Processor::kOther));

struct ProcessorInfo {
  std::string_view name;  // libpfm4's name of its PMU, where it has one
  std::string_view full_name;
  std::string_view source;
  bool libpfm_knows;
};
[[nodiscard]] const ProcessorInfo &info(Processor processor) noexcept;

// An event, and its code on each processor. kNone: that one has no such event.
struct KnownEvent {
  static constexpr std::uint64_t kNone = ~0ull;
  std::string_view name;
  std::string_view meaning;
  std::array<std::uint64_t, kProcessors> config;
  std::array<std::string_view, kProcessors> full_name;  // Intel's name in libpfm4's spelling

  [[nodiscard]] std::uint64_t on(Processor processor) const noexcept {
    return processor == Processor::kOther ? kNone : config[static_cast<std::size_t>(processor)];
  }
};
[[nodiscard]] std::span<const KnownEvent> known_events() noexcept;
[[nodiscard]] const KnownEvent *known_event(std::string_view name) noexcept;

// By family, model and stepping as CPUID leaf 1 tells them.
[[nodiscard]] Processor processor_of(std::string_view vendor, std::uint32_t family,
                                     std::uint32_t model, std::uint32_t stepping) noexcept;
[[nodiscard]] Processor this_processor() noexcept;

}  // namespace tmh::perf
