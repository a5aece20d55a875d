// tests/server/server_requests_test.cpp -- requests of many operations, requests before replies,
// limits, rights, and the end of a server that is told to end.
#include <gtest/gtest.h>

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <string>
#include <thread>
#include <vector>

#include "compat/libdb/server/peer.h"
#include "compat/libtp/client/wire.h"
#include "tests/server/served.h"

namespace tmh::test {
namespace {

class ServerRequestsTest : public ::testing::Test {
 protected:
  Served served_;
  Client client_{served_.socket()};
  tp_server *const server_ = client_.get();
  const std::string one_ = "one", two_ = "two", three_ = "three", data_ = "data";
};

TEST_F(ServerRequestsTest, ABatchIsATransaction) {
  const int db = client_.open(served_.path("file"));
  std::vector<tp_server_op> ops = {op(TP_SERVER_PUT, db, &one_, &data_),
                                   op(TP_SERVER_PUT, db, &two_, &data_),
                                   op(TP_SERVER_GET, db, &one_)};
  std::size_t done = 0;
  ASSERT_EQ(tp_server_batch(server_, ops.data(), ops.size(), 0, &done), 0) << std::strerror(errno);
  EXPECT_EQ(done, 3u);
  EXPECT_EQ(text(ops[2].data), data_);
  // The second finds nothing: nothing has been.
  ops = {op(TP_SERVER_PUT, db, &three_, &data_), op(TP_SERVER_DEL, db, &data_),
         op(TP_SERVER_DEL, db, &one_)};
  EXPECT_EQ(tp_server_batch(server_, ops.data(), ops.size(), 0, &done), 1);
  EXPECT_EQ(done, 2u);
  EXPECT_EQ(value(server_, db, three_), "(none)");
  EXPECT_EQ(value(server_, db, one_), data_);
  // The same, going on.
  ops = {op(TP_SERVER_PUT, db, &three_, &data_), op(TP_SERVER_DEL, db, &data_),
         op(TP_SERVER_DEL, db, &one_)};
  EXPECT_EQ(tp_server_batch(server_, ops.data(), ops.size(), TP_SERVER_GO_ON, &done), 0);
  EXPECT_EQ(done, 3u);
  EXPECT_EQ(ops[1].result, 1);
  EXPECT_EQ(value(server_, db, three_), data_);
  EXPECT_EQ(value(server_, db, one_), "(none)");
  // What is no part of a transaction.
  ops = {op(TP_SERVER_PUT, db, &one_, &data_), op(TP_SERVER_COMMIT)};
  EXPECT_EQ(tp_server_batch(server_, ops.data(), ops.size(), 0, &done), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(value(server_, db, one_), "(none)");
  ASSERT_EQ(call(server_, TP_SERVER_BEGIN), 0);
  EXPECT_EQ(tp_server_batch(server_, ops.data(), 1, 0, &done), -1);
  EXPECT_EQ(errno, EBUSY);
  EXPECT_EQ(tp_server_batch(server_, ops.data(), 1, TP_SERVER_NO_TRANSACTION, &done), 0);
  EXPECT_EQ(call(server_, TP_SERVER_ABORT), 0);
  EXPECT_EQ(value(server_, db, one_), "(none)");
  EXPECT_EQ(call(server_, TP_SERVER_QUERY_BEGIN), -1);
  EXPECT_EQ(errno, ENOTSUP);
}

TEST_F(ServerRequestsTest, AnAdditionIsOneOperation) {
  const int db = client_.open(served_.path("file"));
  std::string record = "head";
  const std::int64_t before = -7;
  record.append(reinterpret_cast<const char *>(&before), sizeof before);
  ASSERT_EQ(call(server_, TP_SERVER_PUT, db, &one_, &record), 0);
  tp_server_op add = op(TP_SERVER_ADD, db, &one_, nullptr, 4);
  add.number = 10;
  ASSERT_EQ(tp_server_call(server_, &add), 0) << std::strerror(errno);
  std::int64_t after = 0;
  ASSERT_EQ(add.data.size, record.size());
  std::memcpy(&after, static_cast<const char *>(add.data.data) + 4, sizeof after);
  EXPECT_EQ(after, 3);
  add = op(TP_SERVER_ADD, db, &one_, nullptr, 5);
  EXPECT_EQ(tp_server_call(server_, &add), -1);
  EXPECT_EQ(errno, EINVAL) << "the record is shorter";
  add = op(TP_SERVER_ADD, db, &two_);
  EXPECT_EQ(tp_server_call(server_, &add), 1);
  EXPECT_EQ(call(server_, TP_SERVER_BEGIN), 0) << "none has stayed";
}

TEST_F(ServerRequestsTest, ADatabaseIsNotClosedInAnothersTransaction) {
  const int db = client_.open(served_.path("file"));
  const Client other(served_.socket());
  ASSERT_EQ(call(server_, TP_SERVER_BEGIN), 0);
  ASSERT_EQ(call(server_, TP_SERVER_PUT, db, &one_, &data_), 0);
  EXPECT_EQ(call(other.get(), TP_SERVER_CLOSE, db), -1);
  EXPECT_EQ(errno, EBUSY);
  EXPECT_EQ(call(other.get(), TP_SERVER_GET, db, &one_), -1);
  EXPECT_EQ(errno, EBUSY);
  ASSERT_EQ(call(server_, TP_SERVER_COMMIT), 0);
  EXPECT_EQ(value(other.get(), db, one_), data_);
  EXPECT_EQ(call(other.get(), TP_SERVER_CLOSE, db), 0);
  EXPECT_EQ(call(server_, TP_SERVER_GET, db, &one_), -1);
  EXPECT_EQ(errno, EBADF);
}

TEST_F(ServerRequestsTest, RequestsGoOutBeforeRepliesAreRead) {
  const int db = client_.open(served_.path("file"));
  // More than all buffers between the two have room for.
  constexpr std::size_t kRequests = 3000;
  const std::string large(3000, 'x');
  for (std::size_t i = 0; i < kRequests; ++i) {
    const std::string key = "key " + std::to_string(i % 50);
    const tp_server_op both[] = {op(TP_SERVER_PUT, db, &key, &large), op(TP_SERVER_GET, db, &key)};
    ASSERT_EQ(tp_server_send(server_, both, 2, 0), 0) << std::strerror(errno);
  }
  tp_server_op none = op(TP_SERVER_GET, db, &one_);
  EXPECT_EQ(tp_server_call(server_, &none), -1);
  EXPECT_EQ(errno, EBUSY) << "replies are on their way";
  for (std::size_t i = 0; i < kRequests; ++i) {
    tp_server_op both[2]{};
    std::size_t done = 0;
    ASSERT_EQ(tp_server_receive(server_, both, 2, &done), 0) << std::strerror(errno);
    ASSERT_EQ(done, 2u);
    ASSERT_EQ(text(both[1].data), large);
  }
  tp_server_op left{};
  EXPECT_EQ(tp_server_receive(server_, &left, 1, nullptr), -1);
  EXPECT_EQ(errno, EINVAL) << "nothing was sent";
}

TEST_F(ServerRequestsTest, LimitsAreErrors) {
  const std::string path = served_.path("file");
  const int db = client_.open(path);
  const std::string huge(TP_SERVER_MESSAGE_MAX, 'x'), large(TP_SERVER_MESSAGE_MAX / 2, 'y');
  EXPECT_EQ(call(server_, TP_SERVER_PUT, db, &one_, &huge), -1);
  EXPECT_EQ(errno, EMSGSIZE);
  ASSERT_EQ(call(server_, TP_SERVER_PUT, db, &one_, &large), 0) << std::strerror(errno);
  EXPECT_EQ(value(server_, db, one_).size(), large.size());
  // Three of them are more than a reply has room for; nothing is changed then.
  std::vector<tp_server_op> ops = {op(TP_SERVER_PUT, db, &two_, &data_)};
  for (int i = 0; i < 3; ++i) ops.push_back(op(TP_SERVER_GET, db, &one_));
  EXPECT_EQ(tp_server_batch(server_, ops.data(), ops.size(), 0, nullptr), -1);
  EXPECT_EQ(errno, EMSGSIZE);
  EXPECT_EQ(value(server_, db, two_), "(none)");
  std::vector<tp_server_op> many(TP_SERVER_OPS_MAX + 1, op(TP_SERVER_GET, db, &one_));
  EXPECT_EQ(tp_server_batch(server_, many.data(), many.size(), 0, nullptr), -1);
  EXPECT_EQ(errno, EINVAL);
  std::vector<int> opened = {db};
  for (;;) {
    const int next =
        tp_server_dbopen(server_, path.c_str(), O_RDWR, 0, DB_BTREE, DB_SHARED | DB_TP, nullptr);
    if (next < 0) break;
    opened.push_back(next);
  }
  EXPECT_EQ(errno, EMFILE);
  EXPECT_EQ(opened.size(), TP_SERVER_DBS_MAX);
  EXPECT_EQ(call(server_, TP_SERVER_CLOSE, opened.back()), 0);
  EXPECT_EQ(call(server_, TP_SERVER_CLOSE, opened.back()), -1);
  EXPECT_EQ(errno, EBADF);
  RECNOINFO numbers{};
  const int records = client_.open(served_.path("numbers"), DB_RECNO, 0, &numbers);
  const recno_t far = (1u << 24) + 1;
  const std::string number(reinterpret_cast<const char *>(&far), sizeof far);
  EXPECT_EQ(call(server_, TP_SERVER_PUT, records, &number, &data_), -1);
  EXPECT_EQ(errno, EFBIG);
}

TEST_F(ServerRequestsTest, AnEndTellsTheRestAndRollsBack) {
  const int db = client_.open(served_.path("file"));
  ASSERT_EQ(call(server_, TP_SERVER_PUT, db, &one_, &data_), 0);
  ASSERT_EQ(call(server_, TP_SERVER_BEGIN), 0);
  ASSERT_EQ(call(server_, TP_SERVER_PUT, db, &two_, &data_), 0);
  // Another one waits for its lock; it does not keep the server.
  const Client waiting(served_.socket());
  const int same = waiting.open(served_.path("file"));
  std::thread waits([&] {
    EXPECT_EQ(call(waiting.get(), TP_SERVER_BEGIN), 0);
    // It is late, or gets the lock of one that was rolled back.
    (void)call(waiting.get(), TP_SERVER_PUT, same, &two_, &data_);
  });
  ASSERT_TRUE(poll_until([&] { return served_.counters().operations >= 7; }));
  served_.end();
  waits.join();
  EXPECT_EQ(call(server_, TP_SERVER_COMMIT), -1);
  EXPECT_EQ(errno, ECONNRESET);
  EXPECT_EQ(call(server_, TP_SERVER_COMMIT), -1) << "for good";
  struct stat found {};
  EXPECT_NE(::stat(served_.socket().c_str(), &found), 0) << "its file is gone";
  // Its files are whole without it.
  tp_db_info info{};
  ASSERT_EQ(tp_db_check(served_.path("file").c_str(), &info), 0) << std::strerror(errno);
  EXPECT_EQ(info.wrong, nullptr);
  EXPECT_EQ(info.records, 1u);
  served_.begin();
  const Client again(served_.socket());
  const int after = again.open(served_.path("file"));
  EXPECT_EQ(value(again.get(), after, one_), data_);
  EXPECT_EQ(value(again.get(), after, two_), "(none)");
}

// ---- Clients that are strange ------------------------------------------------------------------

int raw_socket(const std::string &path) {
  const int made = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  std::memcpy(to.sun_path, path.data(), path.size());
  EXPECT_EQ(::connect(made, reinterpret_cast<const sockaddr *>(&to), sizeof to), 0);
  return made;
}
std::string hello() {
  std::string made;
  const std::size_t at =
      tp::wire::begin_message(&made, 1, static_cast<std::uint16_t>(tp::wire::Kind::kHello));
  tp::wire::Writer out(&made);
  put(&out, tp::wire::Hello());
  EXPECT_TRUE(tp::wire::end_message(&made, at));
  return made;
}

TEST(ServerClientsTest, OneThatDoesNotReadIsGivenUpAndKeepsNobody) {
  tp_server_options options{};
  options.write_ms = 200;
  Served served(options);
  const Client client(served.socket());
  const std::string key = "key", large(60'000, 'x'), data = "data";
  const int db = client.open(served.path("file"));
  ASSERT_EQ(call(client.get(), TP_SERVER_PUT, db, &key, &large), 0);
  const int deaf = raw_socket(served.socket());
  std::string requests = hello();
  // Databases are those of a process: it opens its own, and locks the record in a transaction.
  const auto append = [&](tp_server_kind kind, std::uint32_t number, std::string bytes) {
    tp::wire::Op made;
    made.kind = static_cast<std::uint16_t>(kind);
    made.db = 1;
    const std::string path = served.path("file");
    if (kind == TP_SERVER_DBOPEN) made.key = path;
    if (kind == TP_SERVER_GET || kind == TP_SERVER_PUT) made.key = key;
    if (!bytes.empty()) made.data = bytes;
    const std::size_t at =
        tp::wire::begin_message(&requests, number, static_cast<std::uint16_t>(tp::wire::Kind::kOp));
    tp::wire::Writer out(&requests);
    put(&out, made);
    ASSERT_TRUE(tp::wire::end_message(&requests, at));
  };
  tp::wire::Opening opening;
  opening.flags = O_RDWR;
  opening.dbflags = DB_SHARED | DB_TP;
  std::string info;
  tp::wire::Writer out(&info);
  put(&out, opening);
  append(TP_SERVER_DBOPEN, 2, info);
  append(TP_SERVER_BEGIN, 3, "");
  append(TP_SERVER_PUT, 4, large);
  for (std::uint32_t i = 0; i < 100; ++i) append(TP_SERVER_GET, 5 + i, "");
  ASSERT_EQ(::send(deaf, requests.data(), requests.size(), 0),
            static_cast<ssize_t>(requests.size()));
  ASSERT_TRUE(poll_until([&] { return served.counters().operations > 6; }));
  // It has the record locked, and does not read.
  EXPECT_EQ(call(client.get(), TP_SERVER_PUT, db, &key, &data), 0) << std::strerror(errno);
  EXPECT_EQ(value(client.get(), db, key), data);
  EXPECT_TRUE(poll_until([&] { return served.counters().deaths == 1; }));
  (void)::close(deaf);
}

TEST(ServerClientsTest, AnotherVersionIsTold) {
  Served served;
  const int other = raw_socket(served.socket());
  std::string made;
  const std::size_t at =
      tp::wire::begin_message(&made, 1, static_cast<std::uint16_t>(tp::wire::Kind::kHello));
  tp::wire::Hello wrong;
  wrong.version = 99;
  tp::wire::Writer out(&made);
  put(&out, wrong);
  made += "more than this version has";
  ASSERT_TRUE(tp::wire::end_message(&made, at));
  ASSERT_GT(::send(other, made.data(), made.size(), 0), 0);
  std::string reply(100, '\0');
  const ssize_t got = ::recv(other, reply.data(), reply.size(), 0);
  ASSERT_GT(got, static_cast<ssize_t>(tp::wire::kHeadBytes));
  tp::wire::Reader in(std::string_view(reply).substr(tp::wire::kHeadBytes));
  EXPECT_EQ(tp::wire::take_welcome(&in).error, static_cast<std::uint32_t>(EPROTO));
  (void)::close(other);
}

// ---- Rights -------------------------------------------------------------------------------------

void connect_as(unsigned uid, const std::string &address, int error) {
  expect_child("another user", [&] {
    ASSERT_EQ(::setuid(uid), 0);
    tp_server *const server = tp_server_connect(address.c_str());
    EXPECT_EQ(server != nullptr, error == 0) << std::strerror(errno);
    if (server == nullptr) {
      EXPECT_EQ(errno, error);
    }
    (void)tp_server_close(server);
  });
}

TEST(ServerRightsTest, OtherUsersAreRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root becomes another user";
  Served served;
  (void)::chmod(served.folder().c_str(), 0755);
  connect_as(12345, served.socket(), EACCES);
  ASSERT_EQ(::chmod(served.socket().c_str(), 0666), 0);
  connect_as(12345, served.socket(), EACCES);
  EXPECT_EQ(served.counters().refused, 1u) << "the first had no right to the file";
  served.end();
  const unsigned uids[] = {12345};
  tp_server_options options{};
  options.uids = uids;
  options.uid_count = 1;
  const Served open(options);
  (void)::chmod(open.folder().c_str(), 0755);
  connect_as(12345, open.socket(), 0);
  connect_as(12346, open.socket(), EACCES);
}

TEST(ServerRightsTest, OfALoopbackConnectionTheUserIsKnown) {
  struct State {
    char address[64];
    std::atomic<bool> is_ready;
  };
  Shared<State> state;
  Children children;
  const std::size_t child = children.spawn("server", [&] {
    tp_server_options options{};
    options.argument = &*state;
    options.ready = [](const char *address, void *argument) {
      std::strncpy(static_cast<State *>(argument)->address, address, 63);
      static_cast<State *>(argument)->is_ready = true;
    };
    ASSERT_EQ(tp_serve(&options), 0) << std::strerror(errno);
  });
  ASSERT_TRUE(poll_until([&] { return state->is_ready.load(); }));
  const TempFolder folder;
  {
    const Client client(state->address);
    const std::string key = "key", data = "data";
    const int db = client.open(folder / "file", DB_BTREE, 0);
    EXPECT_EQ(call(client.get(), TP_SERVER_PUT, db, &key, &data), 0);
    EXPECT_EQ(value(client.get(), db, key), data);
  }
  if (::geteuid() == 0) connect_as(12345, state->address, EACCES);
  children.kill(child, SIGTERM);
  EXPECT_TRUE(children.wait(child).succeeded());
}

TEST(ServerRightsTest, ATableOfTheKernelIsReadWithCare) {
  using db::server::uid_in_table;
  const std::string local = "0100007F:1234", remote = "0100007F:5678";
  const auto row = [&](const std::string &state, const std::string &rest) {
    return "  sl  local_address rem_address   st\n   0: " + remote + " " + local +
           " 01 0:0 0:0 0  9 0 5\n"
           "   1: " +
           local + " " + remote + " " + state + " 00000000:00000000 00:00000000 00000000 " + rest +
           "\n";
  };
  EXPECT_EQ(uid_in_table(row("01", " 1000        0 31415 1 0"), local, remote), 1000u);
  EXPECT_EQ(uid_in_table(row("05", "    0        0 31415 1 0"), local, remote), std::nullopt);
  EXPECT_EQ(uid_in_table(row("01", "    0        0 0 1 0"), local, remote), std::nullopt)
      << "its process has closed it";
  EXPECT_EQ(uid_in_table(row("01", ""), local, remote), std::nullopt);
  EXPECT_EQ(uid_in_table(row("01", "-1 0 5"), local, remote), std::nullopt);
  EXPECT_EQ(uid_in_table("", local, remote), std::nullopt);
}

}  // namespace
}  // namespace tmh::test
