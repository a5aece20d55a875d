// compat/libtp/client/thread_server.h -- each thread's connection to TP_SERVER.
// Shape:     a thread that ends leaves its connection to others, so that databases stay open.
// Invariant: a connection that has been lost in a transaction stays, and fails, until the thread
//            ends the transaction: nothing runs outside of it unasked.
// Contexts:  NOT async-signal-safe.
#pragma once

#include <tp/server.h>

#include "compat/libtp/client/connection.h"

struct tp_server {
  tmh::tp::client::Connection connection;
  bool has_transaction = false;
};

namespace tmh::tp::client {

// TP_SERVER is set.
[[nodiscard]] bool is_server_wanted() noexcept;
// Null and errno.
[[nodiscard]] tp_server *server_of_thread() noexcept;
// The one that the thread has, whatever its state; null: none.
[[nodiscard]] tp_server *server_of_thread_now() noexcept;

}  // namespace tmh::tp::client
