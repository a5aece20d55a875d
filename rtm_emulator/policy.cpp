// rtm_emulator/policy.cpp -- the environment's spelling of the knobs, and the report.
#include "rtm_emulator/policy.h"

#include <unistd.h>

#include <Zydis/Zydis.h>

#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "rtm_emulator/assert.h"
#include "rtm_emulator/decode.h"
#include "rtm_emulator/txmem.h"

namespace tmh::rtm {

namespace {

static_assert(ZYDIS_MNEMONIC_MAX_VALUE < kMnemonics, "each has a counter of refusals");

struct Spelling {
  const char *name;
  std::size_t offset, bytes;
};
#define TMH_RTM_KNOB(name, member) \
  { name, offsetof(Knobs, member), sizeof(Knobs::member) }
constexpr Spelling kSpellings[] = {
    TMH_RTM_KNOB("SETS", sets),
    TMH_RTM_KNOB("WAYS", ways),
    TMH_RTM_KNOB("READ_LINES", read_lines),
    TMH_RTM_KNOB("NESTING", nesting),
    TMH_RTM_KNOB("INSTRUCTIONS", instructions),
    TMH_RTM_KNOB("CONFLICT_PPM", conflict_ppm),
    TMH_RTM_KNOB("CAPACITY_PPM", capacity_ppm),
    TMH_RTM_KNOB("SPURIOUS_PPM", spurious_ppm),
    TMH_RTM_KNOB("SEED", seed),
    TMH_RTM_KNOB("YIELD_EVERY", yield_every),
    TMH_RTM_KNOB("COMMIT_DELAY_US", commit_delay_us),
    TMH_RTM_KNOB("STRICT_FIRST_TOUCH", strict_first_touch),
    TMH_RTM_KNOB("REQUESTER_WINS", requester_wins),
    TMH_RTM_KNOB("STOP_OTHERS", stop_others),
};
#undef TMH_RTM_KNOB

constexpr std::size_t spelled_bytes() noexcept {
  std::size_t sum = 0;
  for (const Spelling &spelling : kSpellings) sum += spelling.bytes;
  return sum;
}
static_assert(spelled_bytes() + sizeof(Knobs::reserved_zero) == sizeof(Knobs),
              "each knob has a spelling");
static_assert(std::endian::native == std::endian::little, "a value's lower bytes come first");

// The whole text, decimal, no sign; false: it is something else, or does not fit.
bool parse_number(const char *text, std::size_t bytes, std::uint64_t *value) noexcept {
  TMH_ASSERT(bytes >= 1 && bytes <= 8);
  if (*text < '0' || *text > '9') return false;
  char *end = nullptr;
  errno = 0;
  *value = std::strtoull(text, &end, 10);
  return errno == 0 && *end == 0 && (bytes == 8 || *value >> bytes * 8 == 0);
}

// A misspelled knob would leave the default in its place, and nobody would notice.
bool is_known(const char *name, std::size_t bytes) noexcept {
  const auto is = [name, bytes](const char *known) {
    return std::strlen(known) == bytes && std::strncmp(known, name, bytes) == 0;
  };
  for (const Spelling &spelling : kSpellings)
    if (is(spelling.name)) return true;
  return is("DOMAIN") || is("LIBRARY") || is("STATS");
}

bool knows_environment() noexcept {
  constexpr char kPrefix[] = "TMH_RTM_EMULATION_";
  constexpr std::size_t kPrefixBytes = sizeof kPrefix - 1;
  for (char **entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    if (std::strncmp(*entry, kPrefix, kPrefixBytes) != 0) continue;
    const std::size_t bytes = std::strcspn(*entry, "=");
    if (is_known(*entry + kPrefixBytes, bytes - kPrefixBytes)) continue;
    std::fprintf(stderr, "tmh-rtm-emulation: %.*s is no setting; tmh-rtm-emulation(7) lists them\n",
                 static_cast<int>(bytes), *entry);
    return false;
  }
  return true;
}

}  // namespace

Knobs default_knobs() noexcept {
  Knobs knobs{};
  knobs.sets = 64;
  knobs.ways = 8;
  knobs.read_lines = 8192;
  knobs.nesting = 7;  // MAX_RTM_NEST_COUNT of the processors that have RTM
  knobs.instructions = 1'000'000;
  knobs.seed = 1;
  knobs.strict_first_touch = 1;
  knobs.stop_others = 1;
  TMH_ASSERT(is_valid(knobs));
  return knobs;
}

bool is_valid(const Knobs &knobs) noexcept {
  const bool is_power = knobs.sets != 0 && (knobs.sets & (knobs.sets - 1)) == 0;
  for (const std::uint8_t byte : knobs.reserved_zero)
    if (byte != 0) return false;
  return is_power && knobs.sets <= 65536 && knobs.ways >= 1 && knobs.ways <= 255 &&
         knobs.read_lines >= 1 && knobs.read_lines <= kLinesMax && knobs.nesting >= 1 &&
         knobs.instructions >= 1 && knobs.conflict_ppm <= 1'000'000 &&
         knobs.capacity_ppm <= 1'000'000 && knobs.spurious_ppm <= 1'000'000 &&
         knobs.strict_first_touch <= 1 && knobs.requester_wins <= 1 && knobs.stop_others <= 1;
}

bool parse_environment(Knobs *knobs) noexcept {
  TMH_ASSERT(knobs != nullptr);
  if (!knows_environment()) return false;
  for (const Spelling &spelling : kSpellings) {
    char name[64];
    std::snprintf(name, sizeof name, "TMH_RTM_EMULATION_%s", spelling.name);
    const char *text = std::getenv(name);
    if (text == nullptr) continue;
    Knobs changed = *knobs;
    std::uint64_t value = 0;
    const bool is_number = parse_number(text, spelling.bytes, &value);
    std::memcpy(reinterpret_cast<char *>(&changed) + spelling.offset, &value, spelling.bytes);
    if (!is_number || !is_valid(changed)) {
      std::fprintf(
          stderr,
          "tmh-rtm-emulation: %s=%s makes no sense; tmh-rtm-emulation(7) lists the values\n", name,
          text);
      return false;
    }
    *knobs = changed;
  }
  return true;
}

void report(const Counters &counters, int descriptor) noexcept {
  constexpr const char *kNames[kCauses] = {
      "explicit",    "conflict", "capacity", "int3",    "page fault",         "system call",
      "unsupported", "budget",   "fault",    "nesting", "spurious (injected)"};
  static_assert(kNames[kCauses - 1] != nullptr, "each cause has a name");
  dprintf(descriptor,
          "RTM emulation: %llu commits, %llu of them empty, %llu instructions, %llu stops of "
          "native code, %llu recovered\n",
          static_cast<unsigned long long>(counters.commits.load()),
          static_cast<unsigned long long>(counters.empty_commits.load()),
          static_cast<unsigned long long>(counters.instructions.load()),
          static_cast<unsigned long long>(counters.stops.load()),
          static_cast<unsigned long long>(counters.recovered.load()));
  for (std::size_t cause = 0; cause < kCauses; ++cause)
    if (const auto times = counters.by_cause[cause].load(); times != 0)
      dprintf(descriptor, "  aborts, %s: %llu\n", kNames[cause],
              static_cast<unsigned long long>(times));
  for (unsigned code = 0; code < 256; ++code)
    if (const auto times = counters.by_code[code].load(); times != 0)
      dprintf(descriptor, "  XABORT %u: %llu\n", code, static_cast<unsigned long long>(times));
  for (std::uint16_t mnemonic = 0; mnemonic < kMnemonics; ++mnemonic)
    if (const auto times = counters.refused[mnemonic].load(); times != 0)
      dprintf(descriptor, "  refused %s: %u\n", mnemonic_name(mnemonic), times);
}

}  // namespace tmh::rtm
