// tests/server/tool_tpd_test.cpp -- tmh tpd: its options, what it prints, and its end.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/server/served.h"
#include "tests/support/tool.h"

namespace tmh::test {
namespace {

TEST(ToolTpdTest, ItServesUntilASignal) {
  const TempFolder folder;
  const std::string out = folder / "out", socket = folder / "socket";
  Children children;
  const std::size_t tool = children.spawn("tmh tpd", [&] {
    become_tmh({"tpd", "--socket", socket, "--home", folder / "home", "--durability", "buffered",
                "--json"},
               out);
  });
  ASSERT_TRUE(poll_until([&] {
    return ::access(out.c_str(), F_OK) == 0 && read_file(out).find("ready") != std::string::npos;
  }));
  {
    const Client client(socket);
    const std::string key = "key", data = "data";
    const int db = client.open(folder / "file");
    EXPECT_EQ(call(client.get(), TP_SERVER_PUT, db, &key, &data), 0);
    EXPECT_EQ(value(client.get(), db, key), data);
  }
  children.kill(tool, SIGTERM);
  EXPECT_TRUE(children.wait(tool).succeeded());
  const std::string told = read_file(out);
  expect_valid("tpd", told);
  EXPECT_NE(told.find("\"clients\":1"), std::string::npos) << told;
}

TEST(ToolTpdTest, WrongLinesAndPlacesAreTold) {
  const TempFolder folder;
  EXPECT_EQ(run_tmh({"tpd"}).exit_code, 64);
  EXPECT_EQ(run_tmh({"tpd", "--socket", "a", "--listen", "127.0.0.1:0"}).exit_code, 64);
  EXPECT_EQ(run_tmh({"tpd", "--socket", "a", "--allow-uid", "root"}).exit_code, 64);
  for (const char *const address : {"0.0.0.0:80", "127.0.0.1:", "127.0.0.1:99999", "localhost:1"})
    EXPECT_EQ(run_tmh({"tpd", "--listen", address}).exit_code, 3) << address;
  const ProgramEnd end = run_tmh({"tpd", "--socket", folder / "none/socket"});
  EXPECT_EQ(end.exit_code, 3);
  EXPECT_NE(end.err.find("none/socket"), std::string::npos) << end.err;
}

TEST(ToolTpdTest, ASocketOfALivingServerIsNotTaken) {
  const Served served;
  const ProgramEnd end = run_tmh({"tpd", "--socket", served.socket()});
  EXPECT_EQ(end.exit_code, 3);
  EXPECT_NE(end.err.find("in use"), std::string::npos) << end.err;
}

}  // namespace
}  // namespace tmh::test
