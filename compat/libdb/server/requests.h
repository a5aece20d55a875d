// compat/libdb/server/requests.h -- requests of one client, from bytes to bytes.
// Invariant: whatever the bytes are, a request is answered, or the client is refused for good.
// Contexts:  one thread, the client's: its transaction is the client's. NOT async-signal-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "compat/libdb/server/counters.h"
#include "compat/libdb/server/operations.h"
#include "compat/libdb/server/scripts.h"
#include "compat/libdb/server/session.h"
#include "compat/libtp/client/wire.h"

namespace tmh::db::server {

// What all clients of a server share.
struct Shared {
  Counters counters;
  Sessions sessions;
  Limits limits;
  ScriptLibrary scripts;
};

class Requests {
 public:
  // shared: outlives it.
  Requests(Shared *shared, unsigned uid) noexcept : shared_(*shared), uid_(uid) {}
  ~Requests();
  Requests(const Requests &) = delete;
  Requests &operator=(const Requests &) = delete;

  // Appends the reply. False: what has come is no request, and nothing that follows is one.
  [[nodiscard]] bool answer(const tp::wire::Head &head, std::string_view payload,
                            std::string *reply);

 private:
  [[nodiscard]] bool hello(std::string_view payload, tp::wire::Writer *out);
  [[nodiscard]] bool op(std::string_view payload, std::string *reply);
  [[nodiscard]] bool batch(std::string_view payload, std::string *reply);
  [[nodiscard]] bool script(std::string_view payload, std::string *reply);
  [[nodiscard]] tp::wire::Result begin_batch(bool has_transaction);
  [[nodiscard]] tp::wire::Result run_in_batch(const tp::wire::Op &op, bool has_transaction);

  Shared &shared_;
  const unsigned uid_;
  std::unique_ptr<Operations> operations_;  // null: it has not said hello
  std::unique_ptr<Script> script_;
};

}  // namespace tmh::db::server
