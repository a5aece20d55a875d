// hierarchy/durability/kept_moments.h -- names of moments that outlive the participants of a
// durable domain: those in shared memory go with the last of them, those in tmh.moments stay.
// Shape:     keep() names the present in shared memory, waits until the log holds it, and then
//            writes the file. forget() in the other order. So a name in the file is always one of a
//            state that the log holds; a name of a keeper that was killed is in shared memory only,
//            where forget() finds it.
// Sharing:   any thread of any participant; the folder lock orders them.
// Contexts:  not in handlers.
// Source:    docs/history.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <tmh/past.hpp>

#include "levels/page/page.h"
#include "levels/page/shared/shared.h"
#include "storage/log/log_format.h"
#include "storage/moments_file.h"

namespace tmh::detail {

class KeptMoments {
 public:
  // Of an open domain; all outlive it. log: null: it is volatile. REQUIRES for keep() and forget()
  // the mutex of the process's runner.
  KeptMoments(page::SharedFiles &memory, page::Engine &engine, page::DurableLog *log) noexcept
      : memory_(memory), engine_(engine), log_(log) {}

  // kBadArgument: the name is one already; kTooManyMoments; what tmh.moments is refused for.
  [[nodiscard]] Errc keep(std::string_view name, std::uint64_t *clock) noexcept;
  // kNotHeld: there is no such name.
  [[nodiscard]] Errc forget(std::string_view name) noexcept;
  // Adds what is only in the file.
  [[nodiscard]] Errc complete(PastInfo *info);

 private:
  [[nodiscard]] Errc keep_here(std::string_view name, page::PastName *made);
  [[nodiscard]] Errc read(storage::KeptMoments *moments) const noexcept;
  [[nodiscard]] Errc write(const storage::KeptMoments &moments) const noexcept;

  page::SharedFiles &memory_;
  page::Engine &engine_;
  page::DurableLog *log_;
};

// After a recovery: names of what it has undone go; those of the archive come, of two with one name
// the later. A file that cannot be read stays as it is: it is refused when a name is asked for.
// REQUIRES the folder lock, and that no participant is alive.
[[nodiscard]] Errc settle_moments(page::SharedFiles &memory, const std::string &archive_folder,
                                  std::uint64_t last_stamp, storage::Lsn end) noexcept;
// Into a backup, or an archive, whose own it replaces.
[[nodiscard]] Errc copy_moments(page::SharedFiles &memory, const std::string &to) noexcept;

}  // namespace tmh::detail
