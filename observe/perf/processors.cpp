// observe/perf/processors.cpp -- the table of processors and events.
#include "observe/perf/processors.h"

#include <cpuid.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "platform/assert.h"

namespace tmh::perf {

namespace {

constexpr std::string_view kLibpfm = "libpfm4 4.13";
constexpr std::array<ProcessorInfo, kProcessors> kInfo = {{
    {"hsw", "Haswell", kLibpfm, true},
    {"bdw", "Broadwell", kLibpfm, true},
    {"skl", "Skylake, Kaby Lake, Comet Lake, Skylake-SP", kLibpfm, true},
    {"clx", "Cascade Lake, Cooper Lake", kLibpfm, true},
    {"icl", "Ice Lake, Rocket Lake", kLibpfm, true},
    {"icx", "Ice Lake-SP", kLibpfm, true},
    {"spr", "Sapphire Rapids", kLibpfm, true},
    {"emr", "Emerald Rapids", "Linux, tools/perf/pmu-events/arch/x86/emeraldrapids", false},
    {"gnr", "Granite Rapids", "Linux, tools/perf/pmu-events/arch/x86/graniterapids", false},
}};

static_assert(std::ranges::none_of(kInfo, &std::string_view::empty, &ProcessorInfo::name));
// The columns of the three functions below.
static_assert(static_cast<std::size_t>(Processor::kSkl) == 2 &&
              static_cast<std::size_t>(Processor::kIcl) == 4 &&
              static_cast<std::size_t>(Processor::kSpr) == 6);

constexpr std::uint64_t kNone = KnownEvent::kNone;
constexpr std::uint64_t kInTx = 1ull << 32, kInTxCommitted = 3ull << 32;

constexpr std::array<std::uint64_t, kProcessors> everywhere(std::uint64_t config) {
  std::array<std::uint64_t, kProcessors> all{};
  all.fill(config);
  return all;
}
// From Ice Lake on: the cache tells capacity of loads and of stores apart.
constexpr std::array<std::uint64_t, kProcessors> from_icl(std::uint64_t config) {
  return {kNone, kNone, kNone, kNone, config, config, config, config, config};
}
// Golden Cove moved the page walks of loads and stores.
constexpr std::array<std::uint64_t, kProcessors> moved_by_spr(std::uint64_t config,
                                                              std::uint64_t moved) {
  return {config, config, config, config, config, config, moved, moved, moved};
}

using Names = std::array<std::string_view, kProcessors>;
constexpr Names everywhere(std::string_view name) {
  Names all{};
  all.fill(name);
  return all;
}
// Haswell and Broadwell number the causes, later ones name them.
constexpr Names named_by_skl(std::string_view numbered, std::string_view name) {
  return {numbered, numbered, name, name, name, name, name, name, name};
}
constexpr Names cycles(std::string_view before_icl, std::string_view name) {
  return {before_icl, before_icl, before_icl, before_icl, name, name, name, name, name};
}

constexpr KnownEvent kEvents[] = {
    {"rtm-start", "outermost XBEGINs", everywhere(0x01c9), everywhere("RTM_RETIRED:START")},
    {"rtm-commit", "outermost XENDs that committed", everywhere(0x02c9),
     everywhere("RTM_RETIRED:COMMIT")},
    {"rtm-abort", "aborts, whatever the cause", everywhere(0x04c9),
     everywhere("RTM_RETIRED:ABORTED")},
    {"rtm-abort-memory", "aborts by conflict or capacity", everywhere(0x08c9),
     named_by_skl("RTM_RETIRED:ABORTED_MISC1", "RTM_RETIRED:ABORTED_MEM")},
    {"rtm-abort-unfriendly", "aborts by an instruction that RTM excludes", everywhere(0x20c9),
     named_by_skl("RTM_RETIRED:ABORTED_MISC3", "RTM_RETIRED:ABORTED_UNFRIENDLY")},
    {"rtm-abort-memtype", "aborts by memory that is not write-back", everywhere(0x40c9),
     named_by_skl("RTM_RETIRED:ABORTED_MISC4", "RTM_RETIRED:ABORTED_MEMTYPE")},
    {"rtm-abort-events", "aborts by none of these: interrupts, faults, XABORT", everywhere(0x80c9),
     named_by_skl("RTM_RETIRED:ABORTED_MISC5", "RTM_RETIRED:ABORTED_EVENTS")},
    {"tx-conflict", "conflicts on a line of a transaction", everywhere(0x0154),
     everywhere("TX_MEM:ABORT_CONFLICT")},
    {"tx-capacity-write",
     "capacity exceeded by stores",
     everywhere(0x0254),
     {"TX_MEM:ABORT_CAPACITY_WRITE", "TX_MEM:ABORT_CAPACITY", "TX_MEM:ABORT_CAPACITY",
      "TX_MEM:ABORT_CAPACITY", "TX_MEM:ABORT_CAPACITY_WRITE", "TX_MEM:ABORT_CAPACITY_WRITE",
      "TX_MEM:ABORT_CAPACITY_WRITE", "TX_MEM:ABORT_CAPACITY_WRITE", "TX_MEM:ABORT_CAPACITY_WRITE"}},
    {"tx-capacity-read", "capacity exceeded by loads", from_icl(0x8054),
     everywhere("TX_MEM:ABORT_CAPACITY_READ")},
    {"cycles-in-rtm", "cycles inside transactions", everywhere(kInTx | 0x3c),
     cycles("CPU_CLK_THREAD_UNHALTED:THREAD_P:intx=1", "CPU_CLK_UNHALTED:THREAD_P:intx=1")},
    {"cycles-committed", "cycles inside transactions without those of aborted ones",
     everywhere(kInTxCommitted | 0x3c),
     cycles("CPU_CLK_THREAD_UNHALTED:THREAD_P:intx=1:intxcp=1",
            "CPU_CLK_UNHALTED:THREAD_P:intx=1:intxcp=1")},
    {"load-walks", "page walks for loads", moved_by_spr(0x0e08, 0x0e12),
     everywhere("DTLB_LOAD_MISSES:WALK_COMPLETED")},
    {"store-walks", "page walks for stores", moved_by_spr(0x0e49, 0x0e13),
     everywhere("DTLB_STORE_MISSES:WALK_COMPLETED")},
};

constexpr bool names_differ() {
  for (const KnownEvent &event : kEvents)
    if (std::ranges::count(kEvents, event.name, &KnownEvent::name) != 1) return false;
  return true;
}
static_assert(names_differ(), "known_event() answers with the only one of a name");

}  // namespace

const ProcessorInfo &info(Processor processor) noexcept {
  TMH_ASSERT(processor != Processor::kOther);
  return kInfo[static_cast<std::size_t>(processor)];
}

std::span<const KnownEvent> known_events() noexcept { return kEvents; }

const KnownEvent *known_event(std::string_view name) noexcept {
  const auto *found = std::ranges::find(kEvents, name, &KnownEvent::name);
  return found == std::end(kEvents) ? nullptr : found;
}

Processor processor_of(std::string_view vendor, std::uint32_t family, std::uint32_t model,
                       std::uint32_t stepping) noexcept {
  if (vendor != "GenuineIntel" || family != 6) return Processor::kOther;
  switch (model) {
    case 0x3c:
    case 0x3f:
    case 0x45:
    case 0x46:
      return Processor::kHsw;
    case 0x3d:
    case 0x47:
    case 0x4f:
    case 0x56:
      return Processor::kBdw;
    case 0x4e:
    case 0x5e:
    case 0x8e:
    case 0x9e:
    case 0xa5:
    case 0xa6:
      return Processor::kSkl;
    case 0x55:
      return stepping < 5 ? Processor::kSkl : Processor::kClx;
    case 0x7d:
    case 0x7e:
    case 0xa7:
      return Processor::kIcl;
    case 0x6a:
    case 0x6c:
      return Processor::kIcx;
    case 0x8f:
      return Processor::kSpr;
    case 0xcf:
      return Processor::kEmr;
    case 0xad:
    case 0xae:
      return Processor::kGnr;
    default:
      return Processor::kOther;
  }
}

Processor this_processor() noexcept {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(0, &eax, &ebx, &ecx, &edx) == 0) return Processor::kOther;
  char vendor[12];
  static_assert(sizeof vendor == 3 * sizeof ebx);
  std::memcpy(vendor, &ebx, 4);
  std::memcpy(vendor + 4, &edx, 4);
  std::memcpy(vendor + 8, &ecx, 4);
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0) return Processor::kOther;
  const std::uint32_t family = (eax >> 8) & 15, model = ((eax >> 4) & 15) | ((eax >> 12) & 0xf0);
  return processor_of({vendor, sizeof vendor}, family, model, eax & 15);
}

}  // namespace tmh::perf
