// compat/libdb/server/peer.cpp -- credentials of a Unix socket; the kernel's table of TCP.
#include "compat/libdb/server/peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "platform/assert.h"

namespace tmh::db::server {

namespace {

constexpr std::string_view kEstablished = "01";

[[nodiscard]] std::string_view next_word(std::string_view *line) noexcept {
  const std::size_t begin = std::min(line->find_first_not_of(' '), line->size());
  line->remove_prefix(begin);
  const std::string_view word = line->substr(0, line->find(' '));
  line->remove_prefix(word.size());
  return word;
}
template <class Number>
[[nodiscard]] std::optional<Number> number_of(std::string_view word) noexcept {
  Number number = 0;
  const auto parsed = std::from_chars(word.data(), word.data() + word.size(), number);
  if (parsed.ec != std::errc() || parsed.ptr != word.data() + word.size()) return std::nullopt;
  return number;
}

// An IPv4 address as the tables write it: as it lies in memory, and, in tcp6, mapped.
[[nodiscard]] std::string table_address(const sockaddr_in &of, bool is_mapped) {
  std::array<char, 64> text{};
  (void)std::snprintf(text.data(), text.size(), "%s%08X:%04X",
                      is_mapped ? "0000000000000000FFFF0000" : "", of.sin_addr.s_addr,
                      ntohs(of.sin_port));
  return text.data();
}

}  // namespace

std::optional<unsigned> uid_in_table(std::string_view table, std::string_view local,
                                     std::string_view remote) {
  while (!table.empty()) {
    std::string_view line = table.substr(0, table.find('\n'));
    table.remove_prefix(std::min(line.size() + 1, table.size()));
    (void)next_word(&line);  // its number
    const std::string_view from = next_word(&line), to = next_word(&line), state = next_word(&line);
    if (from != local || to != remote || state != kEstablished) continue;
    for (int skipped = 0; skipped < 3; ++skipped) (void)next_word(&line);
    const auto uid = number_of<unsigned>(next_word(&line));
    (void)next_word(&line);
    const auto inode = number_of<std::uint64_t>(next_word(&line));
    if (uid && inode && *inode != 0) return uid;
  }
  return std::nullopt;
}

std::optional<unsigned> uid_of_peer(int socket) {
  TMH_ASSERT(socket >= 0);
  sockaddr_storage own{}, other{};
  socklen_t own_bytes = sizeof own, other_bytes = sizeof other;
  if (::getsockname(socket, reinterpret_cast<sockaddr *>(&own), &own_bytes) != 0)
    return std::nullopt;
  if (own.ss_family == AF_UNIX) {
    ucred peer{};
    socklen_t bytes = sizeof peer;
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) return std::nullopt;
    return peer.uid;
  }
  if (own.ss_family != AF_INET ||
      ::getpeername(socket, reinterpret_cast<sockaddr *>(&other), &other_bytes) != 0 ||
      other.ss_family != AF_INET)
    return std::nullopt;
  const auto &server = reinterpret_cast<const sockaddr_in &>(own);
  const auto &client = reinterpret_cast<const sockaddr_in &>(other);
  for (const bool is_mapped : {false, true}) {
    std::ifstream file(is_mapped ? "/proc/net/tcp6" : "/proc/net/tcp");
    const std::string table{std::istreambuf_iterator<char>(file), {}};
    // The client's end, seen from there.
    const auto uid =
        uid_in_table(table, table_address(client, is_mapped), table_address(server, is_mapped));
    if (uid) return uid;
  }
  return std::nullopt;
}

}  // namespace tmh::db::server
