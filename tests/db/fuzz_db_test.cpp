// tests/db/fuzz_db_test.cpp -- files of dbopen() that have been damaged: cut, with flipped bytes
// and words, pages of other places and other files, another page size, or foreign; opened alone
// and in an environment, read, changed, checked and closed.
// Invariants: (1) an error, a refusal, or calls that end: no crash, no endless loop. A scan ends
//             within more steps than the file can have records. (2) tp_db_check() ends.
// Size:       TMH_DB_FUZZ files (default 6,000; 1,000,000 with TMH_LONG). TMH_SEED repeats them; a
//             finding prints the number of its file, and TMH_DB_FUZZ_ONE makes that one alone.
#define TP_NO_SHORT_NAMES
#include <tp/db.h>
#include <tp/paper.h>

#undef tp_lock

#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/support/children.h"
#include "tests/support/seed.h"
#include "tests/support/shared.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

constexpr unsigned kPage = 512;
constexpr DBTYPE kTypes[] = {DB_BTREE, DB_HASH, DB_RECNO};

DBT dbt(const std::string &text) { return {const_cast<char *>(text.data()), text.size()}; }

DB *open(const std::string &path, int flags, DBTYPE type, unsigned long tree_flags, int dbflags) {
  BTREEINFO tree{};
  tree.flags = tree_flags;
  tree.psize = kPage;
  HASHINFO table{};
  table.bsize = kPage;
  RECNOINFO numbers{};
  numbers.psize = kPage;
  std::string file = path;
  numbers.bfname = file.data();
  if (type == DB_RECNO) return tp_dbopen(nullptr, flags, 0600, type, dbflags, &numbers);
  return tp_dbopen(path.c_str(), flags, 0600, type, dbflags,
                   type == DB_BTREE ? static_cast<const void *>(&tree) : &table);
}

// A whole file, of a few pages or of many.
struct Seed {
  DBTYPE type;
  unsigned long flags;
  std::string bytes;
};

std::string some(std::mt19937_64 &random, std::size_t bytes_max) {
  return std::string(random() % 8 == 0 ? random() % bytes_max : random() % 30,
                     static_cast<char>('a' + random() % 26));
}

std::vector<Seed> make_seeds(const std::string &folder, std::mt19937_64 &random) {
  std::vector<Seed> seeds;
  for (const DBTYPE type : kTypes)
    for (const unsigned long flags : {0ul, R_DUP + 0ul})
      for (const int records : {0, 1, 12, 150}) {
        if (flags != 0 && type != DB_BTREE) continue;
        const std::string path = folder + "/seed";
        ::unlink(path.c_str());
        DB *const db = open(path, O_RDWR | O_CREAT, type, flags, 0);
        EXPECT_NE(db, nullptr);
        for (int i = 0; i < records; ++i) {
          const std::string key = std::to_string(i * 37 % 101) + some(random, 900);
          const std::string data = some(random, 2500);
          recno_t number = static_cast<recno_t>(1 + random() % static_cast<unsigned>(i + 1));
          DBT k = type == DB_RECNO ? DBT{&number, sizeof number} : dbt(key);
          const DBT d = dbt(data);
          EXPECT_EQ(db->put(db, &k, &d, type == DB_RECNO ? R_IBEFORE : 0), 0);
          if (i % 5 == 4) {
            EXPECT_NE(db->del(db, &k, 0), -1);
          }
        }
        EXPECT_EQ(db->close(db), 0);
        seeds.push_back({type, flags, read_file(path)});
      }
  return seeds;
}

void flip(std::string *bytes, std::mt19937_64 &random) {
  if (bytes->empty()) return;
  // Heads of the file and of pages say the most.
  const std::size_t page = random() % (bytes->size() / kPage + 1) * kPage;
  const std::size_t at = std::min(
      random() % 3 == 0 ? random() % bytes->size() : page + random() % (random() % 2 ? 40 : 128),
      bytes->size() - 1);
  constexpr std::uint32_t kWords[] = {0, 1, 2, 3, 7, 511, 512, 0x7fffffff, 0xffffffff, 0x80000000};
  const std::uint32_t word =
      random() % 3 == 0 ? static_cast<std::uint32_t>(random() % (bytes->size() / kPage + 2))
                        : kWords[random() % std::size(kWords)];
  switch (random() % 4) {
    case 0:
      (*bytes)[at] = static_cast<char>((*bytes)[at] ^ (1 << random() % 8));
      return;
    case 1:
      (*bytes)[at] = static_cast<char>(random());
      return;
    default:
      const std::size_t aligned = at / 2 * 2;
      const std::size_t count = random() % 2 == 0 ? 2 : 4;
      std::memcpy(bytes->data() + aligned, &word, std::min(count, bytes->size() - aligned));
  }
}

std::string damaged(const std::vector<Seed> &seeds, const Seed &from, std::mt19937_64 &random) {
  std::string bytes = from.bytes;
  const std::string &other = seeds[random() % seeds.size()].bytes;
  const auto pages = [](const std::string &file) {
    return std::max<std::size_t>(file.size() / kPage, 1);
  };
  switch (random() % 10) {
    case 0:
      bytes.resize(random() % (bytes.size() + 1));
      break;
    case 1:
      bytes.resize(bytes.size() + random() % 2000, static_cast<char>(random() % 2));
      break;
    case 2:
      for (char &byte : bytes) byte = random() % 60 == 0 ? static_cast<char>(random()) : byte;
      break;
    case 3: {  // another page size
      const std::uint32_t sizes[] = {0, 256, 511, 512, 514, 1024, 4096, 65536, 131072};
      const std::uint32_t size = sizes[random() % std::size(sizes)];
      std::memcpy(bytes.data() + 12, &size, sizeof size);
      break;
    }
    case 4:
    case 5: {  // a page of another place, or of another file
      const std::string &source = random() % 2 == 0 ? bytes : other;
      const std::string page = source.substr(random() % pages(source) * kPage, kPage);
      const std::size_t to = random() % pages(bytes) * kPage;
      bytes.replace(to, std::min(page.size(), bytes.size() - to), page);
      // Perhaps as one that belongs there.
      const auto own = static_cast<std::uint32_t>(to / kPage);
      if (random() % 2 == 0 && bytes.size() >= to + 32)
        std::memcpy(bytes.data() + to + random() % 8 * 4, &own, sizeof own);
      break;
    }
    default:
      break;
  }
  for (std::uint64_t flips = random() % 4; flips > 0; --flips) flip(&bytes, random);
  return bytes;
}

// Calls of every kind. False: a scan does not end.
bool use(DB *db, std::size_t file_bytes, std::mt19937_64 &random) {
  const std::size_t end = 100 + file_bytes;
  for (const unsigned direction : {R_NEXT + 0u, R_PREV + 0u}) {
    if (direction == R_PREV && db->type == DB_HASH) continue;
    DBT key{}, data{};
    std::size_t steps = 0;
    unsigned how = direction == R_NEXT ? R_FIRST : R_LAST;
    for (; db->seq(db, &key, &data, how) == 0; how = direction)
      if (++steps > end) return db->type == DB_RECNO;  // counts may say anything
  }
  for (int i = 0; i < 12; ++i) {
    const std::string key_text = std::to_string(random() % 101) + some(random, 700);
    const std::string data_text = some(random, 1500);
    recno_t number = static_cast<recno_t>(1 + random() % 160);
    DBT key = db->type == DB_RECNO ? DBT{&number, sizeof number} : dbt(key_text);
    DBT data{};
    const DBT given = dbt(data_text);
    switch (random() % 5) {
      case 0:
        (void)db->get(db, &key, &data, 0);
        break;
      case 1:
        (void)db->del(db, &key, 0);
        break;
      case 2:
        (void)db->seq(db, &key, &data, db->type == DB_HASH ? R_NEXT : R_CURSOR);
        (void)db->del(db, &key, R_CURSOR);
        break;
      default:
        (void)db->put(db, &key, &given, db->type == DB_RECNO && i % 2 == 0 ? R_IBEFORE : 0);
    }
  }
  return true;
}

class Fuzzer {
 public:
  Fuzzer(std::string folder, std::uint64_t seed) : folder_(std::move(folder)) {
    std::mt19937_64 random(seed);
    seeds_ = make_seeds(folder_, random);
    tp_options options{};
    EXPECT_EQ(tp_paper_open((folder_ + "/home").c_str(), &options), TP_OK) << tp_last_error();
  }
  ~Fuzzer() { EXPECT_EQ(tp_paper_close(), TP_OK); }
  Fuzzer(const Fuzzer &) = delete;
  Fuzzer &operator=(const Fuzzer &) = delete;

  void one(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    const Seed &from = seeds_[random() % seeds_.size()];
    const std::string bytes = damaged(seeds_, from, random);
    const std::string path = folder_ + "/file";
    // Some as another type.
    const DBTYPE type = random() % 16 == 0 ? kTypes[random() % 3] : from.type;
    const int kinds[] = {0, 0, DB_SHARED, DB_SHARED | DB_TP};
    const int kind = kinds[random() % 4];
    ::unlink(path.c_str());
    write_file(path, bytes);
    tp_db_info info{};
    ::alarm(20);
    if (random() % 2 == 0) (void)tp_db_check(path.c_str(), &info);
    if (DB *const db = open(path, random() % 4 == 0 ? O_RDONLY : O_RDWR, type, from.flags, kind);
        db != nullptr) {
      ++opened_;
      EXPECT_TRUE(use(db, bytes.size(), random)) << "a scan does not end";
      (void)db->close(db);
    }
    (void)tp_db_check(path.c_str(), &info);
    ::alarm(0);
  }
  [[nodiscard]] std::uint64_t opened() const noexcept { return opened_; }

 private:
  std::string folder_;
  std::vector<Seed> seeds_;
  std::uint64_t opened_ = 0;
};

TEST(FuzzDbTest, DamagedFilesAreRefusedOrUsed) {
  const std::uint64_t usual = environment_number("TMH_LONG", 0) != 0 ? 1'000'000 : 6'000;
  const std::uint64_t all = environment_number("TMH_DB_FUZZ", usual);
  const std::uint64_t first = environment_number("TMH_DB_FUZZ_ONE", 0);
  const std::uint64_t begin = seed() * 100'000'000;
  constexpr std::uint64_t kAtOnce = 20'000;
  std::uint64_t opened = 0;
  // Each part in a process and a folder of its own.
  for (std::uint64_t done = first; (first != 0 || done < all) && !HasFailure(); done += kAtOnce) {
    const MemoryFolder folder;
    const Shared<std::atomic<std::uint64_t>> at, in_all;
    Children children;
    children.spawn("fuzzer", [&] {
      Fuzzer fuzzer(folder.path(), seed());
      const std::uint64_t end = first != 0 ? first + 1 : std::min(all, done + kAtOnce);
      for (std::uint64_t i = done; i < end && !HasFailure(); ++i) {
        at->store(i);
        fuzzer.one(begin + i);
      }
      in_all->store(fuzzer.opened());
    });
    EXPECT_TRUE(children.wait(0, 20 * hang_deadline()).succeeded())
        << "TMH_SEED=" << seed() << " TMH_DB_FUZZ_ONE=" << at->load();
    opened += in_all->load();
    if (first != 0) return;
  }
  std::printf("%llu files, %llu opened\n", static_cast<unsigned long long>(all),
              static_cast<unsigned long long>(opened));
  EXPECT_GT(opened, all / 20);
}

}  // namespace
}  // namespace tmh::test
