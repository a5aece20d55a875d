// compat/libdb/server/operations.h -- operations of tp/server.h, done with the library's calls, in
// the calling thread's transaction.
// Invariant: no number or length of an operation is believed.
// Contexts:  one thread, a client's. NOT async-signal-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "compat/libdb/server/counters.h"
#include "compat/libdb/server/session.h"
#include "compat/libtp/client/wire.h"

namespace tmh::db::server {

struct Limits {
  // Of DB_RECNO's puts, and of pages.
  std::uint64_t number_max = 1u << 24;
  std::uint64_t script_ms = 10'000;
};

class Operations {
 public:
  Operations(Counters *counters, const Limits &limits, std::shared_ptr<Session> session) noexcept
      : counters_(*counters), limits_(limits), session_(std::move(session)) {}
  ~Operations();
  Operations(const Operations &) = delete;
  Operations &operator=(const Operations &) = delete;

  // What it delivers lies where it is until the next one.
  [[nodiscard]] tp::wire::Result run(const tp::wire::Op &op) noexcept;
  // What the thread's transaction has done is undone. False: there is none.
  bool roll_back() noexcept;
  // A script may have ended the transaction.
  void note_end() noexcept;

 private:
  using Op = tp::wire::Op;
  using Result = tp::wire::Result;
  [[nodiscard]] Result run_op(const Op &op);
  [[nodiscard]] Result open(const Op &op);
  [[nodiscard]] Result close(const Op &op);
  [[nodiscard]] Result record(const Op &op);
  [[nodiscard]] Result add(const Op &op, Database *database);
  [[nodiscard]] Result add_here(const Op &op, DB *db);
  [[nodiscard]] Result home(const Op &op);
  [[nodiscard]] Result begin();
  [[nodiscard]] Result end(const Op &op);
  [[nodiscard]] Result trade(const Op &op);
  [[nodiscard]] Result log(const Op &op);
  [[nodiscard]] Result open_pages(const Op &op);
  [[nodiscard]] Result get_page(const Op &op);
  [[nodiscard]] Result put_page(const Op &op);
  // A number of tp.h, and its text.
  [[nodiscard]] Result answer(int error);
  [[nodiscard]] DBT *given_key(const Op &op);
  void use(Database *database);

  Counters &counters_;
  const Limits limits_;
  const std::shared_ptr<Session> session_;
  // The running transaction, which databases name as their user.
  std::shared_ptr<std::atomic<bool>> running_;
  std::uint64_t running_id_ = 0;
  std::string key_, data_, text_;
  DBT given_{};
};

// What a thread's transaction has: also those of scripts.
[[nodiscard]] bool has_transaction() noexcept;

}  // namespace tmh::db::server
