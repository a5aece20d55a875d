// rtm_emulator/mappings.cpp -- who uses the mappings, who changes them.
#include "rtm_emulator/mappings.h"

#include <signal.h>

#include <atomic>

#include "rtm_emulator/assert.h"
#include "rtm_emulator/system.h"
#include "rtm_emulator/trap.h"

namespace tmh::rtm {

namespace {

// seq_cst all: who uses stores first and then looks whether somebody changes, who changes the other
// way round; one of them sees the other.
std::atomic<std::uint32_t> g_users{0}, g_changers{0};
std::atomic<std::uint64_t> g_changes{0};

}  // namespace

MappingsInUse::MappingsInUse() noexcept {
  for (;;) {
    g_users.fetch_add(1);
    if (g_changers.load() == 0) return;
    g_users.fetch_sub(1);
    while (g_changers.load() != 0) (void)system_call(Call::kSchedYield);
  }
}

MappingsInUse::~MappingsInUse() {
  const std::uint32_t users = g_users.fetch_sub(1);
  TMH_ASSERT(users > 0);
}

std::uint64_t mapping_changes() noexcept {
  // Relaxed: g_changers was loaded after the last one.
  return g_changes.load(std::memory_order_relaxed);
}

MappingChange::MappingChange() noexcept {
  // A handler of the program would be native code of a thread that counts as stopped.
  const std::uint64_t all = ~std::uint64_t{0};
  (void)system_call(Call::kRtSigprocmask, SIG_BLOCK, address_of(&all), address_of(&mask_),
                    sizeof mask_);
  was_native_ = leave_native_here();
  g_changers.fetch_add(1);
  while (g_users.load() != 0) (void)system_call(Call::kSchedYield);
}

MappingChange::~MappingChange() {
  g_changes.fetch_add(1);
  const std::uint32_t changers = g_changers.fetch_sub(1);
  TMH_ASSERT(changers > 0);
  if (was_native_) enter_native_here();
  (void)system_call(Call::kRtSigprocmask, SIG_SETMASK, address_of(&mask_), 0, sizeof mask_);
}

void forget_mapping_users() noexcept {
  g_users.store(0);
  g_changers.store(0);
}

}  // namespace tmh::rtm
