// tests/server/tcl_test.cpp -- the Tcl package tp: its commands, their errors, hostile arguments;
// and scripts at a server.
#include <gtest/gtest.h>

#include <unistd.h>
#include <string>
#include <vector>

#include "tests/server/served.h"
#include "tests/support/program.h"
#include "tests/support/seed.h"
#include "tests/support/tool.h"

namespace tmh::test {
namespace {

#ifdef TMH_TCL_FOLDER
constexpr bool kIsBuilt = true;
const std::string kFolder = TMH_TCL_FOLDER;
#else
constexpr bool kIsBuilt = false;
const std::string kFolder;
#endif
constexpr const char *kShell = "/usr/bin/tclsh8.6";

class TclTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!kIsBuilt) GTEST_SKIP() << "the package was not built: tcl8.6-dev is missing";
  }
  // What it prints; a script that fails fails the test.
  [[nodiscard]] std::string run(const std::string &script) {
    if (::access(kShell, X_OK) != 0) return "no tclsh";
    const std::string file = folder_ / "script.tcl";
    write_file(file, "lappend auto_path " + kFolder + "\npackage require tp\ncd " + folder_.path() +
                         "\n" + script);
    const ProgramEnd end = run_program({kShell, file});
    EXPECT_FALSE(end.hung);
    EXPECT_EQ(end.signal, 0);
    EXPECT_EQ(end.exit_code, 0) << end.err;
    return end.out;
  }
  [[nodiscard]] static bool has_shell() { return ::access(kShell, X_OK) == 0; }

  const TempFolder folder_;
};

TEST_F(TclTest, ATransactionIsThereOrNot) {
  if (!has_shell()) GTEST_SKIP() << "tclsh8.6 is missing";
  EXPECT_EQ(run(R"tcl(
    proc told {body} {
      if {[catch {uplevel 1 $body} why options]} {return [dict get $options -errorcode]}
      return $why
    }
    tp::open home -durability buffered
    set db [tp::dbopen file {rdwr creat} 0600 btree -tp -psize 512]
    puts [told {tp::txn commit}]
    tp::txn begin
    puts [$db put one 1][$db put two [binary format H* 00ff00]]
    tp::txn commit
    tp::txn begin
    $db put one changed
    $db del two
    tp::lock 7 8 exclusive
    puts [told {tp::unlock 7 9 exclusive}]
    tp::txn abort
    puts [$db get one]
    binary scan [$db get two] H* hex
    puts $hex
    puts [told {$db get none}][$db get none v][$db get one v]$v
    puts [$db put one x -nooverwrite]
    puts [told {$db put one \u1234}]
    puts [told {$db seq first one}]
    for {set r [$db seq first]} {[llength $r]} {set r [$db seq next]} {puts [lindex $r 0]}
    puts [$db seq cursor o]
    set numbers [tp::dbopen numbers {rdwr creat} 0600 recno -shared]
    $numbers put 1 first
    $numbers put 1 before -ibefore
    $numbers put 9 last
    puts [$numbers seq last],[$numbers get 2]
    set table [tp::dbopen {} rdwr 0 hash]
    puts [$table put key data][$table get key]
    puts [told {tp::dbopen nowhere/file {rdwr creat} 0600 btree}]
    puts [told {tp::dbopen file {rdwr wronly} 0600 btree}]
    foreach one [list $db $numbers $table] {$one sync; $one close}
    puts [catch {$db get one}]
    tp::close
  )tcl"),
            "TP EINVAL\n11\nTP ENOTLOCKED\n1\n00ff00\nTP NOTFOUND011\n0\nTP EINVAL\nTP EINVAL\n"
            "one\ntwo\none 1\n9 last,first\n1data\nTP ENOENT\nTCL LOOKUP INDEX flag wronly\n1\n");
}

// Whatever the words are, a command returns or is an error.
TEST_F(TclTest, AnyWordsAreAnErrorOrRight) {
  if (!has_shell()) GTEST_SKIP() << "tclsh8.6 is missing";
  const std::string count = std::to_string(environment_number("TMH_FUZZ", 100'000) / 5);
  const std::string told = run("expr {srand(" + std::to_string(seed() % 1'000'000 + 1) + ")}\n" +
                               "set inputs " + count + R"tcl(
    proc random {count} {expr {int(rand() * $count)}}
    set words {put get del seq sync close first last next prev cursor -cursor -nooverwrite -iafter
      -ibefore -setcursor -shared -tp -dup -psize -cachesize -reclen 0 1 2 3 17 512 1024 -1 65536
      99999999999 4294967296 begin commit abort exclusive shared btree hash recno rdwr creat rdonly
      {rdwr creat} {rdwr creat trunc} file1 file2 file3 nowhere/file {} {a b c} "\{" 0600 1e9 0x10}
    lappend words \u20ac [string repeat x 3000] [binary format H* 0001ff00] "a\0b"
    set commands {tp::dbopen tp::txn tp::lock tp::unlock tp::log}
    tp::open home -durability none
    set right 0
    for {set i 0} {$i < $inputs} {incr i} {
      set all [concat $commands [info commands ::tp::db\[0-9\]*] [info commands ::tp::db\[0-9\]*]]
      set line [list [lindex $all [random [llength $all]]]]
      if {[lindex $line 0] eq "tp::dbopen" && [random 4]} {
        lappend line file[random 4] {rdwr creat} 0600 [lindex {btree hash recno} [random 3]] -tp
      } elseif {[lindex $line 0] eq "tp::dbopen" && [llength $all] > 40} {
        continue
      } elseif {[string match ::tp::db* [lindex $line 0]] && [random 8]} {
        lappend line [lindex {put put put get get del seq seq sync} [random 9]]
      }
      for {set n [random 5]} {$n > 0} {incr n -1} {
        lappend line [lindex $words [random [llength $words]]]
      }
      if {![catch $line]} {incr right}
    }
    catch {tp::txn abort}
    foreach db [info commands ::tp::db\[0-9\]*] {$db close}
    tp::close
    puts [expr {$right > $inputs / 100}]
  )tcl");
  EXPECT_EQ(told, "1\n") << "seed " << seed();
}

// ---- Scripts at a server ------------------------------------------------------------------------

class ServerScriptTest : public TclTest {
 protected:
  void begin(const std::vector<std::string> &options) {
    const std::string out = folder_ / "out", socket = folder_ / "socket";
    server_ = children_.spawn("tmh tpd", [&] {
      std::vector<std::string> words = {"tpd", "--socket", socket, "--home", folder_ / "home"};
      words.insert(words.end(), options.begin(), options.end());
      become_tmh(words, out);
    });
    ASSERT_TRUE(poll_until([&] {
      return ::access(out.c_str(), F_OK) == 0 && read_file(out).find("TP_SERVER=") == 0;
    }));
  }
  void end() {
    children_.kill(server_, SIGTERM);
    EXPECT_TRUE(children_.wait(server_).succeeded());
  }
  [[nodiscard]] static std::string told(tp_server *server, const std::string &script) {
    DBT result{};
    const int made = tp_server_script(server, script.data(), script.size(), &result);
    return made == -1 ? std::strerror(errno) : (made == 0 ? "" : "error: ") + text(result);
  }

  Children children_;
  std::size_t server_ = 0;
};

TEST_F(ServerScriptTest, AScriptRunsInTheClientsTransaction) {
  begin({"--tcl", "--script-time", "0.5"});
  {
    const Client client(folder_ / "socket");
    tp_server *const server = client.get();
    const std::string file = folder_ / "file", key = "key", data = "data", other = "other";
    const int db = client.open(file);
    ASSERT_EQ(call(server, TP_SERVER_BEGIN), 0);
    ASSERT_EQ(call(server, TP_SERVER_PUT, db, &key, &data), 0);
    EXPECT_EQ(told(server, "set db [tp::dbopen " + file + " rdwr 0 btree -tp]; $db get key"),
              "data");
    EXPECT_EQ(told(server, "$db put key other; $db get key"), "other");
    ASSERT_EQ(call(server, TP_SERVER_ABORT), 0);
    EXPECT_EQ(value(server, db, key), "(none)");
    EXPECT_EQ(told(server, "tp::txn begin; $db put key [string repeat x 20]; tp::txn commit"), "");
    EXPECT_EQ(value(server, db, key), std::string(20, 'x'));
    // What a script may not.
    for (const char *const script : {"exec true", "open /etc/passwd", "source x", "socket a 1",
                                     "tp::open x", "exit", "load x", "cd /", "file delete x"})
      EXPECT_EQ(told(server, script).rfind("error: invalid command name", 0), 0u) << script;
    EXPECT_EQ(told(server, "while 1 {}").rfind("error: time limit exceeded", 0), 0u);
    EXPECT_EQ(told(server, "catch {while 1 {}}; set x 1").rfind("error: time limit", 0), 0u);
    EXPECT_EQ(told(server, "expr {6 * 7}"), "42") << "the limit is a script's";
    EXPECT_EQ(told(server, "interp limit {} time -seconds {}").rfind("error: ", 0), 0u);
    EXPECT_EQ(told(server, "if {"), "error: missing close-brace");
    // Of a client that goes in the transaction of a script nothing stays.
    EXPECT_NE(told(server, "tp::txn begin"), "");
    EXPECT_EQ(told(server, "$db put key gone"), "1");
  }
  {
    const Client client(folder_ / "socket");
    EXPECT_EQ(value(client.get(), client.open(folder_ / "file"), "key"), std::string(20, 'x'));
  }
  end();
}

TEST_F(ServerScriptTest, WithoutTclThereAreNoScripts) {
  begin({});
  {
    const Client client(folder_ / "socket");
    EXPECT_EQ(told(client.get(), "set x 1"), std::strerror(ENOTSUP));
  }
  end();
}

}  // namespace
}  // namespace tmh::test
