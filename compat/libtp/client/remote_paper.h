// compat/libtp/client/remote_paper.h -- the calls of tp/paper.h, made at the server.
// Shape:     a pinned page is a copy: what the caller has changed in it goes to the server when it
//            is unpinned, where it is stored with what undoes it.
// Errors:    as those of tp/paper.h; tp_last_error() has the server's text, or errno's.
// Contexts:  NOT async-signal-safe.
#pragma once

#include <tp.h>

#include <cstddef>
#include <cstdint>

namespace tmh::tp::client {

int remote_open(const char *home, const tp_options *options) noexcept;
int remote_close() noexcept;
[[nodiscard]] tp_id remote_begin() noexcept;
int remote_commit() noexcept;
int remote_abort() noexcept;
[[nodiscard]] int remote_buf_open(const char *path, int flags, int mode) noexcept;
[[nodiscard]] void *remote_buf_get(int file, std::uint64_t page, int *bytes) noexcept;
int remote_buf_unpin(void *page) noexcept;
int remote_lock(int file, std::uint64_t page, unsigned mode) noexcept;
int remote_unlock(int file, std::uint64_t page, unsigned mode) noexcept;
int remote_trade(int file, std::uint64_t page, unsigned from, unsigned to) noexcept;
[[nodiscard]] tp_lsn remote_log(std::uint32_t type, const void *data, std::size_t bytes) noexcept;
// All steps so far are durable.
int remote_flush() noexcept;

}  // namespace tmh::tp::client
