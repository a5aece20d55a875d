// compat/libtp/paper.cpp -- the paper's calls: one environment, and a transaction per thread; or a
// server's, where the process has no environment and TP_SERVER names one.
// Contexts:  NOT async-signal-safe.
// Source:    LIBTP, sections 3.2 and 4.4.
#define TP_NO_SHORT_NAMES
#include <tp/paper.h>

#undef tp_lock

#include <atomic>

#include "compat/libtp/calls.h"
#include "compat/libtp/client/remote_paper.h"
#include "compat/libtp/client/thread_server.h"
#include "compat/libtp/interruption.h"

using namespace tmh::tp;  // NOLINT(google-build-using-namespace): it defines C functions alone

namespace {

std::atomic<tp_env *> process_environment{nullptr};
std::atomic<std::uint64_t> opens{0};
thread_local tp_txn *running = nullptr;

[[nodiscard]] bool is_remote() noexcept {
  return process_environment.load() == nullptr && client::is_server_wanted();
}

struct Logged {
  std::uint32_t type;
  const void *data;
  std::size_t bytes;
  tp_lsn lsn;
};
int log_alone(tp_step_t *step, void *argument) {
  auto &logged = *static_cast<Logged *>(argument);
  return tp_log(step, logged.type, logged.data, logged.bytes, &logged.lsn);
}

}  // namespace

extern "C" {

int tp_paper_open(const char *home, const tp_options *options) {
  if (is_remote()) return client::remote_open(home, options);
  if (process_environment.load() != nullptr) return refused("this process has its environment");
  tp_env *opened = nullptr;
  const int error = tp_open(home, options, &opened);
  if (error == TP_OK) {
    opens.fetch_add(1);
    process_environment.store(opened);
  }
  return error;
}
int tp_paper_close(void) {
  if (is_remote()) return client::remote_close();
  tp_env *const env = process_environment.load();
  if (env == nullptr) return refused("no environment");
  bool is_gone = false;
  const int error = close_environment(env, &is_gone);
  if (is_gone) process_environment.store(nullptr);
  return error;
}
tp_env *tp_paper_env(void) { return process_environment.load(); }
uint64_t tp_paper_serial(void) { return opens.load(); }
tp_txn *tp_paper_txn(void) { return running; }

tp_id tp_paper_begin(void) {
  if (is_remote()) return client::remote_begin();
  if (running != nullptr) {
    (void)refused("this thread's transaction has not ended");
    return 0;
  }
  return tp_begin(process_environment.load(), &running) == TP_OK ? tp_txn_id(running) : 0;
}
int tp_paper_commit(void) {
  if (is_remote()) return client::remote_commit();
  const int error = tp_commit(running);
  // Nothing in this process ends it any more.
  if (error == static_cast<int>(tmh::Errc::kLogFailed)) (void)tp_detach(running, nullptr);
  if (error == TP_OK || error == static_cast<int>(tmh::Errc::kLogFailed)) running = nullptr;
  return error;
}
int tp_paper_abort(void) {
  if (is_remote()) return client::remote_abort();
  const int error = tp_abort(running);
  if (error == TP_OK) running = nullptr;
  return error;
}

}  // extern "C"

void tmh::tp::give_transaction_up() noexcept {
  if (running != nullptr) (void)tp_detach(running, nullptr);
  running = nullptr;
}

extern "C" {

int tp_paper_buf_open(const char *path, int flags, int mode) {
  if (is_remote()) return client::remote_buf_open(path, flags, mode);
  int fid = -1;
  return tp_buf_open(process_environment.load(), path, flags, static_cast<unsigned>(mode), &fid) ==
                 TP_OK
             ? fid
             : -1;
}
void *tp_paper_buf_get(int fid, uint64_t page, int flags, int *len) {
  if (flags != BF_PIN) {
    (void)refused("a page is got pinned, or not at all");
    return nullptr;
  }
  if (is_remote()) return client::remote_buf_get(fid, page, len);
  size_t bytes = 0;
  void *address = nullptr;
  if (tp_buf_pin(running, fid, page, &bytes, &address) != TP_OK) return nullptr;
  if (len != nullptr) *len = static_cast<int>(bytes);
  return address;
}
int tp_paper_buf_unpin(void *page) {
  return is_remote() ? client::remote_buf_unpin(page) : tp_buf_unpin(running, page);
}

int tp_paper_lock(int fid, uint64_t page, unsigned mode) {
  if (is_remote()) return client::remote_lock(fid, page, mode);
  return tp_lock(running, {static_cast<uint64_t>(fid), page}, mode, TP_FOREVER);
}
int tp_paper_unlock(int fid, uint64_t page, unsigned mode) {
  if (is_remote()) return client::remote_unlock(fid, page, mode);
  return tp_unlock(running, {static_cast<uint64_t>(fid), page}, mode);
}
int tp_paper_upgrade(int fid, uint64_t page, unsigned from, unsigned to) {
  if (is_remote()) return client::remote_trade(fid, page, from, to);
  return tp_lock_trade(running, {static_cast<uint64_t>(fid), page}, from, to, TP_FOREVER);
}

tp_lsn tp_paper_log(uint32_t type, const void *data, size_t bytes) {
  if (is_remote()) return client::remote_log(type, data, bytes);
  Logged logged{type, data, bytes, 0};
  tp_step_t *const step = tp_running_step(running);
  const int error =
      step != nullptr ? log_alone(step, &logged) : tp_step(running, TP_FIELDS, log_alone, &logged);
  return error == TP_OK ? logged.lsn : 0;
}
tp_lsn tp_paper_log_commit(uint32_t type, const void *data, size_t bytes) {
  const tp_lsn lsn = tp_paper_log(type, data, bytes);
  if (is_remote()) return lsn != 0 && client::remote_flush() == TP_OK ? lsn : 0;
  return lsn != 0 && tp_log_flush(process_environment.load()) == TP_OK ? lsn : 0;
}

}  // extern "C"
