#include "compat/libitm/tasks/thread_keys.h"

#include <limits.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <type_traits>

#include "levels/process/ground/ground.h"
#include "levels/process/process.h"

namespace tmh::itm::pages {

namespace {

struct Key {
  std::atomic<std::uint64_t> sequence;
  std::atomic<void (*)(void *)> destructor;
};
struct Value {
  std::uint64_t sequence;
  void *value;
};
struct Values {
  Value values[PTHREAD_KEYS_MAX];
};
static_assert(std::is_trivially_copyable_v<Values>);
static_assert(std::atomic<void (*)(void *)>::is_always_lock_free);

// Before the engine runs: main's alone.
constinit Key early_keys[PTHREAD_KEYS_MAX]{};
constinit Values early_values{};
constinit Key *keys = early_keys;
constinit Values *values = &early_values;  // of slot 0 and on

[[nodiscard]] Value *own_value(pthread_key_t key) noexcept {
  if (key >= PTHREAD_KEYS_MAX) return nullptr;
  return &values[is_started() ? own_slot() : 0].values[key];
}
[[nodiscard]] bool is_used(std::uint64_t sequence) noexcept { return (sequence & 1) != 0; }

int create_key(pthread_key_t *key, void (*destructor)(void *)) noexcept {
  for (pthread_key_t i = 0; i < PTHREAD_KEYS_MAX; ++i) {
    std::uint64_t sequence = keys[i].sequence.load(std::memory_order_relaxed);
    if (is_used(sequence)) continue;
    // acq_rel: the destructor belongs to this use
    if (keys[i].sequence.compare_exchange_strong(sequence, sequence + 1,
                                                 std::memory_order_acq_rel)) {
      keys[i].destructor.store(destructor, std::memory_order_release);
      *key = i;
      return 0;
    }
  }
  return EAGAIN;
}

}  // namespace

bool start_thread_keys() noexcept {
  TMH_ASSERT(keys == early_keys && values == &early_values);
  auto *const all_keys = static_cast<Key *>(reserve_shared(sizeof early_keys));
  auto *const all_values = static_cast<Values *>(reserve_shared(kTasksMax * sizeof(Values)));
  if (all_keys == nullptr || all_values == nullptr) return false;
  std::memcpy(static_cast<void *>(all_keys), early_keys, sizeof early_keys);
  std::memcpy(all_values, &early_values, sizeof early_values);
  keys = all_keys;
  values = all_values;
  return true;
}

void clear_thread_keys(std::uint32_t slot) noexcept {
  TMH_ASSERT(0 < slot && slot < kTasksMax);
  for (pthread_key_t i = 0; i < PTHREAD_KEYS_MAX; ++i)
    if (values[slot].values[i].value != nullptr) values[slot].values[i] = {};
}

void end_thread_keys() {
  Values &own = values[own_slot()];
  for (int round = 0; round < PTHREAD_DESTRUCTOR_ITERATIONS; ++round) {
    bool is_any = false;
    for (pthread_key_t i = 0; i < PTHREAD_KEYS_MAX; ++i) {
      Value &each = own.values[i];
      if (each.value == nullptr) continue;
      void *const value = each.value;
      each.value = nullptr;
      if (each.sequence != keys[i].sequence.load(std::memory_order_acquire)) continue;
      void (*const destructor)(void *) = keys[i].destructor.load(std::memory_order_acquire);
      if (destructor == nullptr) continue;
      is_any = true;
      destructor(value);
    }
    if (!is_any) return;
  }
}

}  // namespace tmh::itm::pages

using namespace tmh::itm::pages;  // NOLINT(google-build-using-namespace)

extern "C" {

TMH_EXPORTED int pthread_key_create(pthread_key_t *key, void (*destructor)(void *)) noexcept {
  return create_key(key, destructor);
}
TMH_EXPORTED int __pthread_key_create(pthread_key_t *key, void (*destructor)(void *)) noexcept {
  return create_key(key, destructor);
}

TMH_EXPORTED int pthread_key_delete(pthread_key_t key) noexcept {
  if (key >= PTHREAD_KEYS_MAX) return EINVAL;
  std::uint64_t sequence = keys[key].sequence.load(std::memory_order_acquire);
  if (!is_used(sequence) || !keys[key].sequence.compare_exchange_strong(sequence, sequence + 1,
                                                                        std::memory_order_acq_rel))
    return EINVAL;
  return 0;
}

TMH_EXPORTED void *pthread_getspecific(pthread_key_t key) noexcept {
  const Value *const own = own_value(key);
  if (own == nullptr || own->value == nullptr) return nullptr;
  return own->sequence == keys[key].sequence.load(std::memory_order_acquire) ? own->value : nullptr;
}

TMH_EXPORTED int pthread_setspecific(pthread_key_t key, const void *value) noexcept {
  Value *const own = own_value(key);
  if (own == nullptr) return EINVAL;
  const std::uint64_t sequence = keys[key].sequence.load(std::memory_order_acquire);
  if (!is_used(sequence)) return EINVAL;
  *own = {sequence, const_cast<void *>(value)};
  return 0;
}

}  // extern "C"
