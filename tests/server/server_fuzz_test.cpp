// tests/server/server_fuzz_test.cpp -- hostile bytes: requests that are right, changed, cut and
// made up, given to the parser, and sent to a server. TMH_FUZZ is how many.
// Invariants: (1) a request is answered by a reply that is whole, or its client is refused. (2) The
//             server goes on, and serves others. (3) Nothing is made outside of the test's folder.
#include <gtest/gtest.h>

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <algorithm>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "compat/libdb/server/requests.h"
#include "compat/libtp/client/wire.h"
#include "tests/server/served.h"
#include "tests/support/seed.h"

namespace tmh::test {
namespace {

namespace wire = tp::wire;

class Hostile {
 public:
  Hostile(std::string folder, std::uint64_t seed) : folder_(std::move(folder)), random_(seed) {}

  // A message, or something like one.
  [[nodiscard]] std::string next() {
    std::string made;
    switch (random_() % 16) {
      case 0: {  // anything
        made.resize(random_() % 200);
        for (char &byte : made) byte = static_cast<char>(random_());
        return made;
      }
      case 1:
        made = message(wire::Kind::kHello, hello());
        break;
      case 2:
        made = message(wire::Kind::kScript, script());
        break;
      case 3:
      case 4:
      case 5:
        made = message(wire::Kind::kBatch, batch());
        break;
      default:
        made = message(wire::Kind::kOp, operation());
        break;
    }
    return random_() % 3 == 0 ? changed(made) : made;
  }
  [[nodiscard]] std::string greeting() { return message(wire::Kind::kHello, hello()); }
  [[nodiscard]] std::uint64_t random() { return random_(); }

 private:
  [[nodiscard]] std::string message(wire::Kind kind, const std::string &payload) {
    std::string made;
    const std::size_t at = wire::begin_message(&made, ++number_, static_cast<std::uint16_t>(kind));
    made += payload;
    EXPECT_TRUE(wire::end_message(&made, at));
    return made;
  }
  [[nodiscard]] std::string hello() {
    std::string made;
    wire::Writer out(&made);
    wire::Hello hello;
    hello.session[0] = random_() % 3;
    put(&out, hello);
    return made;
  }
  [[nodiscard]] std::string script() {
    std::string made;
    wire::Writer(&made).bytes("puts [exec rm -rf /]");
    return made;
  }
  [[nodiscard]] std::string batch() {
    std::string made;
    wire::Writer out(&made);
    out.number(static_cast<std::uint32_t>(random_() % 10 == 0 ? random_() : random_() % 4));
    const std::uint32_t count = random_() % 8;
    out.number(random_() % 20 == 0 ? static_cast<std::uint32_t>(random_()) : count);
    for (std::uint32_t i = 0; i < count; ++i) made += operation();
    return made;
  }
  // Of the folder, or refused; or, changed, of no folder that there is.
  [[nodiscard]] std::string path() {
    const std::string strange[] = {"",
                                   "relative",
                                   folder_,
                                   folder_ + "/none/file",
                                   folder_ + std::string("/a\0b", 4),
                                   std::string(5000, 'x')};
    if (random_() % 6 == 0) return strange[random_() % std::size(strange)];
    return folder_ + "/file" + std::to_string(random_() % 6);
  }
  [[nodiscard]] std::string opening() {
    wire::Opening made;
    const auto some = [&](std::initializer_list<std::int32_t> of) {
      return random_() % 30 == 0 ? static_cast<std::int32_t>(random_())
                                 : of.begin()[random_() % of.size()];
    };
    made.flags = some({O_RDWR | O_CREAT, O_RDWR | O_CREAT, O_RDWR, O_RDONLY, O_RDWR | O_TRUNC});
    made.mode = 0600;
    made.type = some({DB_BTREE, DB_HASH, DB_RECNO});
    made.dbflags = some({0, DB_SHARED, DB_SHARED | DB_TP, DB_SHARED | DB_TP});
    made.has_info = random_() % 2;
    for (std::uint64_t &number : made.numbers) {
      constexpr std::uint64_t kNumbers[] = {0, 0, 0, 1, 2, 512, 1024, 4321, 65536, 1u << 31};
      number = random_() % 40 == 0 ? random_() : kNumbers[random_() % std::size(kNumbers)];
    }
    const std::string tree = path();
    if (random_() % 4 == 0) made.tree_file = tree;
    std::string bytes;
    wire::Writer out(&bytes);
    put(&out, made);
    return bytes;
  }
  [[nodiscard]] std::string operation() {
    wire::Op made;
    std::string key, data;
    made.kind = static_cast<std::uint16_t>(random_() % 8 == 0 ? random_() % 40
                                                              : 1 + random_() % TP_SERVER_SEQ);
    if (random_() % 12 == 0) made.kind = TP_SERVER_DBOPEN;
    if (random_() % 12 == 0)
      made.kind = static_cast<std::uint16_t>(TP_SERVER_BEGIN + random_() % 3);
    made.db = static_cast<std::int32_t>(random_() % 30 == 0 ? random_() : random_() % 8);
    made.flags = static_cast<std::uint32_t>(random_() % 30 == 0 ? random_() : random_() % 12);
    made.number = random_() % 10 == 0 ? random_() : random_() % 20;
    const auto number = static_cast<recno_t>(random_() % 20 == 0 ? random_() : random_() % 50);
    key.assign(reinterpret_cast<const char *>(&number), sizeof number);
    if (random_() % 8 == 0) key.resize(random_() % 800, 'k');
    data.resize(random_() % 20 == 0 ? random_() % 5000 : random_() % 40, 'd');
    if (made.kind == TP_SERVER_DBOPEN || made.kind == TP_SERVER_HOME) key = path();
    if (made.kind == TP_SERVER_HOME) made.number = 0;
    if (made.kind == TP_SERVER_DBOPEN) data = opening();
    if (made.kind == TP_SERVER_BUF_OPEN) key = "pages" + std::to_string(random_() % 3);
    if (random_() % 20 != 0) made.key = key;
    if (random_() % 20 != 0) made.data = data;
    std::string bytes;
    wire::Writer out(&bytes);
    put(&out, made);
    return bytes;
  }
  // Numbers and lengths; not the bytes of paths, which would name files elsewhere.
  [[nodiscard]] std::string changed(std::string bytes) {
    const bool has_path = bytes.find(folder_) != std::string::npos;
    for (std::uint64_t i = random_() % 4 + 1; i > 0 && !bytes.empty(); --i) {
      const std::size_t at = random_() % (has_path ? wire::kHeadBytes : bytes.size());
      switch (random_() % 4) {
        case 0:
          bytes[at] = static_cast<char>(bytes[at] ^ 1 << random_() % 8);
          break;
        case 1:
          bytes[at] = static_cast<char>(random_());
          break;
        case 2:
          if (!has_path) bytes.resize(at);
          break;
        default:
          if (!has_path) bytes.insert(at, 1, static_cast<char>(random_()));
          break;
      }
    }
    return bytes;
  }

  const std::string folder_;
  std::mt19937_64 random_;
  std::uint32_t number_ = 0;
};

void expect_whole(const wire::Head &request, const std::string &reply) {
  ASSERT_GE(reply.size(), wire::kHeadBytes);
  const wire::Head head = wire::head_of(reply);
  EXPECT_EQ(head.number, request.number);
  EXPECT_EQ(head.kind, request.kind | wire::kReply);
  ASSERT_EQ(head.bytes, reply.size() - wire::kHeadBytes);
  wire::Reader in(std::string_view(reply).substr(wire::kHeadBytes));
  if (request.kind == static_cast<std::uint16_t>(wire::Kind::kHello)) {
    (void)wire::take_welcome(&in);
  } else if (request.kind == static_cast<std::uint16_t>(wire::Kind::kBatch)) {
    (void)in.number<std::int32_t>();
    (void)in.number<std::int32_t>();
    for (auto left = in.number<std::uint32_t>(); left > 0 && in.is_right(); --left)
      (void)wire::take_result(&in);
  } else {
    (void)wire::take_result(&in);
  }
  EXPECT_TRUE(in.is_at_end());
}

TEST(ServerFuzzTest, AnyBytesAreAnsweredOrRefused) {
  const TempFolder folder;
  expect_child("parser", [&] {
    ASSERT_EQ(::chdir(folder.path().c_str()), 0);
    tp_options options{};
    ASSERT_EQ(tp_paper_open((folder / "home").c_str(), &options), TP_OK) << tp_last_error();
    db::server::Shared shared;
    shared.limits.number_max = 500;
    Hostile hostile(folder.path(), seed());
    const std::uint64_t inputs = environment_number("TMH_FUZZ", 100'000);
    std::unique_ptr<db::server::Requests> requests;
    std::uint64_t answered = 0, refused = 0;
    std::string reply;
    const auto give = [&](const std::string &bytes) {
      wire::Head head = wire::head_of(bytes);
      const std::string_view payload =
          std::string_view(bytes).substr(std::min(bytes.size(), wire::kHeadBytes));
      // A worker waits for all of it.
      head.bytes = static_cast<std::uint32_t>(payload.size());
      reply.clear();
      if (requests->answer(head, payload, &reply)) {
        ++answered;
        expect_whole(head, reply);
      } else {
        ++refused;
        EXPECT_TRUE(reply.empty());
        requests.reset();
      }
    };
    for (std::uint64_t i = 0; i < inputs && !::testing::Test::HasFailure(); ++i) {
      if (requests == nullptr || hostile.random() % 500 == 0) {
        requests.reset();
        requests = std::make_unique<db::server::Requests>(&shared, 0);
        if (hostile.random() % 50 != 0) give(hostile.greeting());
        if (requests == nullptr) continue;
      }
      give(hostile.next());
    }
    requests.reset();
    EXPECT_GT(answered, inputs / 2);
    EXPECT_GT(refused, inputs / 100);
    EXPECT_GT(shared.counters.transactions, inputs / 1000);
    EXPECT_EQ(tp_paper_close(), TP_OK) << tp_last_error();
  });
}

TEST(ServerFuzzTest, AServerServesOthersMeanwhile) {
  tp_server_options options{};
  options.record_number_max = 500;
  options.write_ms = 500;
  Served served(options);
  const Client client(served.socket());
  const std::string key = "key", data = "data";
  const int db = client.open(served.path("own"));
  const std::string strangers = served.path("strangers");
  ASSERT_EQ(::mkdir(strangers.c_str(), 0700), 0);
  Hostile hostile(strangers, seed() + 1);
  for (std::uint64_t i = 0; i < environment_number("TMH_FUZZ", 100'000) / 500; ++i) {
    const int stranger = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    std::memcpy(to.sun_path, served.socket().data(), served.socket().size());
    ASSERT_EQ(::connect(stranger, reinterpret_cast<const sockaddr *>(&to), sizeof to), 0);
    std::string bytes = hostile.greeting();
    for (std::uint64_t left = hostile.random() % 30; left > 0; --left) bytes += hostile.next();
    // Some is read, or nothing, and then it is gone.
    (void)!::send(stranger, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    std::string reply(4096, '\0');
    if (hostile.random() % 2 == 0) (void)!::recv(stranger, reply.data(), reply.size(), 0);
    (void)::close(stranger);
    if (i % 10 != 0) continue;
    ASSERT_EQ(call(client.get(), TP_SERVER_PUT, db, &key, &data), 0) << std::strerror(errno);
    ASSERT_EQ(value(client.get(), db, key), data);
  }
}

}  // namespace
}  // namespace tmh::test
