// rtm_emulator/control.cpp -- the C interface, and the start before main().
#include "rtm_emulator/control.h"

#include <cpuid.h>
#include <pthread.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "rtm_emulator/assert.h"
#include "rtm_emulator/decode.h"
#include "rtm_emulator/domain.h"
#include "rtm_emulator/mappings.h"
#include "rtm_emulator/pages.h"
#include "rtm_emulator/patch.h"
#include "rtm_emulator/publish.h"
#include "rtm_emulator/trap.h"

namespace tmh::rtm {

namespace {

static_assert(std::has_unique_object_representations_v<Knobs> && sizeof(Knobs) == 56,
              "programs in C pass it: no hidden padding");
static_assert(sizeof(tmh_rtm_emulation_counters) == 19 * sizeof(std::uint64_t));
static_assert(TMH_RTM_EMULATION_FAILED < TMH_RTM_EMULATION_OFF &&
              TMH_RTM_EMULATION_OFF < TMH_RTM_EMULATION_TRAPS &&
              TMH_RTM_EMULATION_TRAPS < TMH_RTM_EMULATION_FORCED);

std::atomic<int> g_state{TMH_RTM_EMULATION_OFF};
// Two copies: readers take the one that the number names, a setter writes the other one first.
Knobs g_knobs[2];
std::atomic<unsigned> g_knobs_now{0};

bool has_rtm() noexcept {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b >> 11 & 1) != 0;
}

void in_child() noexcept {
  forget_thread();
  forget_mapping_users();
  forget_replacing();
  (void)register_thread();
}

int start(bool force) noexcept {
  if (g_state.load() > TMH_RTM_EMULATION_OFF) return g_state.load();
  const char *path = std::getenv("TMH_RTM_EMULATION_DOMAIN");
  prepare_decoder();
  prepare_pages();
  if (!open_domain(path) || !open_staging() || !install_handlers() || !register_thread() ||
      ::pthread_atfork(nullptr, nullptr, in_child) != 0) {
    std::fprintf(stderr, "tmh-rtm-emulation: cannot start\n");
    return TMH_RTM_EMULATION_FAILED;
  }
  g_state.store(force && has_rtm() ? TMH_RTM_EMULATION_FORCED : TMH_RTM_EMULATION_TRAPS);
  if (g_state.load() == TMH_RTM_EMULATION_FORCED) (void)patch_loaded_objects();
  return g_state.load();
}

__attribute__((constructor)) void start_as_environment_says() noexcept {
  g_knobs[0] = default_knobs();
  const char *mode = std::getenv("TMH_RTM_EMULATION");
  const bool is_off = mode != nullptr && std::strcmp(mode, "off") == 0;
  const bool is_forced = mode != nullptr && std::strcmp(mode, "force") == 0;
  const bool is_auto = mode == nullptr || std::strcmp(mode, "auto") == 0;
  const bool is_right = is_off || is_forced || is_auto;
  if (!is_right)
    std::fprintf(stderr, "tmh-rtm-emulation: TMH_RTM_EMULATION=%s: auto, force or off\n", mode);
  if (!parse_environment(&g_knobs[0]) || !is_right)
    ::_exit(64);  // a test that runs with other knobs than it names is worth nothing
  if (!is_off && (is_forced || !has_rtm())) (void)start(is_forced);
}

__attribute__((destructor)) void report_at_end() noexcept {
  const char *where = std::getenv("TMH_RTM_EMULATION_STATS");
  if (where != nullptr && std::strcmp(where, "0") != 0 && is_running())
    report(shared().counters, STDERR_FILENO);
}

}  // namespace

Knobs current_knobs() noexcept { return g_knobs[g_knobs_now.load(std::memory_order_acquire)]; }
bool is_running() noexcept {
  return g_state.load(std::memory_order_relaxed) > TMH_RTM_EMULATION_OFF;
}  // relaxed: set once, early

}  // namespace tmh::rtm

using namespace tmh::rtm;

int tmh_rtm_emulation_start(int force) { return start(force != 0); }
int tmh_rtm_emulation_state(void) { return g_state.load(); }

void tmh_rtm_emulation_get_knobs(tmh_rtm_emulation_knobs *knobs) {
  TMH_ASSERT(knobs != nullptr);
  *knobs = current_knobs();
}

int tmh_rtm_emulation_set_knobs(const tmh_rtm_emulation_knobs *knobs) {
  TMH_ASSERT(knobs != nullptr);
  if (!is_valid(*knobs)) return -1;
  const unsigned next = g_knobs_now.load() ^ 1;
  g_knobs[next] = *knobs;
  g_knobs_now.store(next, std::memory_order_release);  // pairs with the acquire in current_knobs()
  return 0;
}

void tmh_rtm_emulation_get_counters(tmh_rtm_emulation_counters *counters) {
  TMH_ASSERT(counters != nullptr);
  *counters = {};
  if (!is_running()) return;
  const Counters &from = shared().counters;
  const auto by = [&from](Cause cause) {
    return from.by_cause[static_cast<std::size_t>(cause)].load();
  };
  counters->commits = from.commits.load();
  counters->empty_commits = from.empty_commits.load();
  for (const auto &cause : from.by_cause) counters->aborts += cause.load();
  counters->explicit_aborts = by(Cause::kExplicit);
  counters->conflicts = by(Cause::kConflict);
  counters->capacity = by(Cause::kCapacity);
  counters->debug = by(Cause::kDebug);
  counters->page_faults = by(Cause::kPageFault);
  counters->system_calls = by(Cause::kSystem);
  counters->unsupported = by(Cause::kUnsupported);
  counters->over_budget = by(Cause::kBudget);
  counters->faults = by(Cause::kFault);
  counters->too_deep = by(Cause::kNesting);
  counters->zero = counters->page_faults + counters->system_calls + counters->unsupported +
                   counters->over_budget + counters->faults + counters->too_deep +
                   by(Cause::kSpurious);
  counters->nested = from.nested.load();
  counters->injected = from.injected.load() + by(Cause::kSpurious);
  counters->instructions = from.instructions.load();
  counters->stops = from.stops.load();
  counters->recovered = from.recovered.load();
}

uint64_t tmh_rtm_emulation_explicit_aborts(uint8_t code) {
  return is_running() ? shared().counters.by_code[code].load() : 0;
}

uint64_t tmh_rtm_emulation_refused(const char *mnemonic) {
  TMH_ASSERT(mnemonic != nullptr);
  if (!is_running()) return 0;
  for (std::uint16_t number = 0; number < kMnemonics; ++number)
    if (shared().counters.refused[number].load() != 0 &&
        std::strcmp(mnemonic_name(number), mnemonic) == 0)
      return shared().counters.refused[number].load();
  return 0;
}

void tmh_rtm_emulation_report(int descriptor) {
  if (is_running()) report(shared().counters, descriptor);
}

size_t tmh_rtm_emulation_patch(void *begin, void *end) {
  if (!is_running()) return 0;
  const auto first = reinterpret_cast<std::uint64_t>(begin),
             last = reinterpret_cast<std::uint64_t>(end);
  TMH_ASSERT(first <= last);
  return patch_range(first, last, first, last);
}

size_t tmh_rtm_emulation_patch_loaded(void) {
  return g_state.load() == TMH_RTM_EMULATION_FORCED ? patch_loaded_objects() : 0;
}
