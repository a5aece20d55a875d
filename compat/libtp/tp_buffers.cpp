// compat/libtp/tp_buffers.cpp -- the C interface of the buffer manager: pages of segments. The
// kernel's page cache is the pool.
// Contexts:  NOT async-signal-safe.
// Source:    LIBTP 3.2.2 and 4.4.
#include <tp.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "compat/libtp/calls.h"

using namespace tmh::tp;  // NOLINT(google-build-using-namespace): it defines C functions alone
using tmh::Errc;

namespace {

constexpr int kFlags = O_ACCMODE | O_CREAT | O_EXCL | O_CLOEXEC;

// Stored bytes: zeros are what no transaction has stored to.
[[nodiscard]] bool is_unused(const std::byte *page) noexcept {
  return std::all_of(page, page + TP_PAGE_BYTES,
                     [](std::byte byte) { return byte == std::byte{}; });
}

}  // namespace

extern "C" {

int tp_buf_open(tp_env *env, const char *file, int flags, unsigned mode, int *fid) {
  if (env == nullptr || file == nullptr || fid == nullptr) return refused("a file of nothing");
  if ((flags & ~kFlags) != 0 || (flags & O_ACCMODE) == O_WRONLY || mode > 07777)
    return refused("flags or mode of tp_buf_open()");
  return guarded_env(env, [&](Environment &) {
    const std::string path =
        file[0] == '/' ? file : env->environment.managers().domain().folder() + "/" + file;
    const bool is_there = access(path.c_str(), F_OK) == 0;
    if (!is_there && (flags & O_CREAT) == 0)
      throw tmh::Error(Errc::kIo, path + ": no such file, and O_CREAT is not said");
    if (is_there && (flags & O_EXCL) != 0) throw tmh::Error(Errc::kIo, path + " exists");
    tmh::SegmentOptions options;
    options.size_bytes = is_there ? 0 : TP_PAGE_BYTES;
    options.layout = tmh::Layout::kRaw;
    (void)env->environment.map(file, options, fid);
  });
}

int tp_buf_pin(tp_txn *txn, int fid, uint64_t page, size_t *bytes, void **address) {
  if (address == nullptr) return refused("a page that is nowhere");
  return guarded_in(txn, [&](Transaction &transaction) {
    const tmh::Segment segment = txn->env->segment_at(fid);
    if (page >= segment.max_bytes() / TP_PAGE_BYTES)
      throw tmh::Error(Errc::kSegmentFull, segment.name() + ": page " + std::to_string(page));
    // Outside of the step, where that can be.
    const std::uint64_t wanted = (page + 1) * TP_PAGE_BYTES;
    if (segment.size_bytes() < wanted) segment.grow(wanted);
    std::byte *const at = segment.data() + page * TP_PAGE_BYTES;
    transaction.pin(at);
    if (bytes != nullptr) *bytes = is_unused(at) ? 0 : TP_PAGE_BYTES;
    *address = at;
  });
}

int tp_buf_unpin(tp_txn *txn, void *address) {
  if (address == nullptr) return refused("no page");
  return guarded_in(txn, [&](Transaction &transaction) { transaction.unpin(address); });
}

int tp_buf_sync(tp_env *env, int fid) {
  return guarded_env(env, [&](Environment &) {
    if (is_step_here()) throw tmh::Error(Errc::kInstanceRunning, "a step never waits");
    (void)env->environment.segment_at(fid);
    if (env->environment.managers().is_durable()) env->environment.managers().domain().checkpoint();
  });
}

}  // extern "C"
