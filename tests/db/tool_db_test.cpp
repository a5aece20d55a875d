// tests/db/tool_db_test.cpp -- tmh db: check, dump and load, of sound files and damaged ones, of
// texts that are none, and of files whose newest pages an environment has.
#define TP_NO_SHORT_NAMES
#include <tp/db.h>
#include <tp/paper.h>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/children.h"
#include "tests/support/seed.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tool.h"

namespace tmh::test {
namespace {

std::string read_all(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream all;
  all << file.rdbuf();
  return all.str();
}
void write_all(const std::string &path, const std::string &bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}
DBT dbt(const std::string &text) { return {const_cast<char *>(text.data()), text.size()}; }

class ToolDbTest : public ::testing::TestWithParam<DBTYPE> {
 protected:
  [[nodiscard]] static const char *type() {
    return GetParam() == DB_BTREE ? "btree" : GetParam() == DB_HASH ? "hash" : "recno";
  }
  [[nodiscard]] static DB *open(std::string path, int dbflags) {
    BTREEINFO tree{};
    tree.psize = 512;
    tree.flags = R_DUP;
    HASHINFO table{};
    table.bsize = 512;
    RECNOINFO numbers{};
    numbers.psize = 512;
    numbers.bfname = path.data();
    const bool is_numbers = GetParam() == DB_RECNO;
    return tp_dbopen(is_numbers ? nullptr : path.c_str(), O_RDWR | O_CREAT, 0600, GetParam(),
                     dbflags,
                     is_numbers              ? static_cast<const void *>(&numbers)
                     : GetParam() == DB_HASH ? static_cast<const void *>(&table)
                                             : &tree);
  }
  static void fill(DB *db) {
    for (recno_t i = 1; i <= 500; ++i) {
      const std::string text = "key " + std::to_string(i / 2), data(i % 90, '\n');
      const DBT d = dbt(i % 100 == 0 ? std::string(3000, 'l') : data);
      DBT k = GetParam() == DB_RECNO ? DBT{&i, sizeof i} : dbt(text);
      const std::string longer(3000, 'l');
      const DBT l = dbt(longer);
      ASSERT_EQ(db->put(db, &k, i % 100 == 0 ? &l : &d, 0), 0) << i;
    }
  }
  TempFolder folder_;
};

TEST_P(ToolDbTest, ADumpThatIsLoadedIsTheSame) {
  const std::string a = folder_ / "a", b = folder_ / "b", text = folder_ / "text";
  DB *const db = open(a, 0);
  ASSERT_NE(db, nullptr);
  fill(db);
  ASSERT_EQ(db->close(db), 0);
  const ProgramEnd checked = run_tmh({"db", "check", a, "--json"});
  EXPECT_EQ(checked.exit_code, 0) << checked.err;
  EXPECT_NE(checked.out.find("\"state\": \"sound\""), std::string::npos) << checked.out;
  EXPECT_NE(checked.out.find(std::string("\"type\": \"") + type()), std::string::npos);
  const ProgramEnd dumped = run_tmh({"db", "dump", a});
  EXPECT_EQ(dumped.exit_code, 0) << dumped.err;
  write_all(text, dumped.out);
  const ProgramEnd loaded = run_tmh({"db", "load", b, text});
  EXPECT_EQ(loaded.exit_code, 0) << loaded.err;
  const ProgramEnd again = run_tmh({"db", "dump", b});
  // A hash table's order is its own.
  if (GetParam() != DB_HASH) {
    EXPECT_EQ(again.out, dumped.out);
  }
  EXPECT_EQ(again.out.size(), dumped.out.size());
  EXPECT_EQ(run_tmh({"db", "check", b}).exit_code, 0);
  EXPECT_EQ(run_tmh({"db", "load", b, text}).exit_code, 3);
}

// A process that is killed leaves what is newer in its environment.
TEST_P(ToolDbTest, WhatAnEnvironmentHasIsSeen) {
  const std::string path = folder_ / "a";
  Children children;
  const std::size_t child = children.spawn("writer", [&] {
    DB *const db = open(path, DB_SHARED | DB_TP);
    ASSERT_NE(db, nullptr);
    fill(db);
    (void)::raise(SIGKILL);
  });
  EXPECT_EQ(children.wait(child).signal, SIGKILL);
  const ProgramEnd checked = run_tmh({"db", "check", path});
  EXPECT_EQ(checked.exit_code, 0) << checked.err;
  EXPECT_NE(checked.out.find(GetParam() == DB_HASH ? " 251 records" : " 500 records"),
            std::string::npos)
      << checked.out;
  EXPECT_NE(checked.out.find("sound"), std::string::npos) << checked.out;
}

TEST_P(ToolDbTest, DamageIsFoundOrHarmless) {
  const std::string path = folder_ / "a", damaged = folder_ / "damaged";
  DB *const db = open(path, 0);
  ASSERT_NE(db, nullptr);
  fill(db);
  ASSERT_EQ(db->close(db), 0);
  const std::string sound = read_all(path);
  std::mt19937_64 random(seed());
  int found = 0;
  for (int i = 0; i < 40; ++i) {
    std::string bytes = sound;
    const std::size_t page = 512 * (1 + random() % (bytes.size() / 512 - 1));
    bytes[page + random() % 32] = static_cast<char>(random());
    if (i % 8 == 0) bytes.resize(random() % bytes.size());
    write_all(damaged, bytes);
    const int exit_code = run_tmh({"db", "check", damaged}).exit_code;
    EXPECT_TRUE(exit_code == 0 || exit_code == 2) << exit_code;
    found += exit_code == 2 ? 1 : 0;
  }
  EXPECT_GT(found, 10);
}

TEST(ToolDbTextTest, TextsThatAreNone) {
  const TempFolder folder;
  const std::string path = folder / "a", text = folder / "text";
  for (const char *bytes :
       {"", "VERSION=3\n", "VERSION=9\nHEADER=END\nDATA=END\n", "VERSION=3\nHEADER=END\nDATA=END\n",
        "VERSION=3\ntype=queue\nHEADER=END\nDATA=END\n", "VERSION=3\ntype=btree\nHEADER=END\n 6\n",
        "VERSION=3\ntype=btree\nHEADER=END\n 6g\n 00\nDATA=END\n",
        "VERSION=3\ntype=btree\nHEADER=END\n61\n 00\nDATA=END\n",
        "VERSION=3\ntype=hash\nHEADER=END\n 61\nDATA=END\n",
        "VERSION=3\ntype=hash\nHEADER=END\n 61\n 62\n",
        "VERSION=3\nformat=print\ntype=btree\nHEADER=END\n a\\\n b\nDATA=END\n"}) {
    write_all(text, bytes);
    EXPECT_EQ(run_tmh({"db", "load", path, text}).exit_code, 2) << bytes;
    EXPECT_FALSE(std::filesystem::exists(path)) << bytes;
  }
  write_all(text, "VERSION=3\nformat=print\ntype=btree\nHEADER=END\n a\\\\\\0a\n b\nDATA=END\n");
  EXPECT_EQ(run_tmh({"db", "load", path, text}).exit_code, 0);
  EXPECT_NE(run_tmh({"db", "dump", path}).out.find("\n 615c0a\n 62\n"), std::string::npos);
  EXPECT_EQ(run_tmh({"db", "check", folder / "none"}).exit_code, 3);
  EXPECT_EQ(run_tmh({"db"}).exit_code, 64);
}

INSTANTIATE_TEST_SUITE_P(Types, ToolDbTest, testing::Values(DB_BTREE, DB_HASH, DB_RECNO),
                         [](const auto &type) {
                           return type.param == DB_BTREE  ? "Btree"
                                  : type.param == DB_HASH ? "Hash"
                                                          : "Recno";
                         });

}  // namespace
}  // namespace tmh::test
