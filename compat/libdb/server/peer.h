// compat/libdb/server/peer.h -- whose process the other end of a socket is of.
// Contexts:  any thread. NOT async-signal-safe.
#pragma once

#include <optional>
#include <string_view>

namespace tmh::db::server {

// None: nobody can say.
[[nodiscard]] std::optional<unsigned> uid_of_peer(int socket);

// In a text of /proc/net/tcp or tcp6. Addresses as it has them, hexadecimal: ADDRESS:PORT. What its
// process has closed has no owner there.
[[nodiscard]] std::optional<unsigned> uid_in_table(std::string_view table, std::string_view local,
                                                   std::string_view remote);

}  // namespace tmh::db::server
