// bench/support/oo1_db.cpp -- OO1 in files of dbopen().
// Shape:   as LIBTP's: parts in a B-tree, connections in records of a fixed length by number, and
//          two B-trees with duplicates that lead from a part's number to those of connections, from
//          it and to it. Hashes have no duplicates: a record there has all numbers of a part.
#define TP_NO_SHORT_NAMES
#include "bench/support/oo1_db.h"

#include <tp/db.h>
#include <tp/paper.h>

#include <endian.h>
#include <fcntl.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "platform/assert.h"

namespace tmh::bench {

namespace {

constexpr unsigned kCacheBytes = 64U << 20, kPageBytes = 4096;
enum File : std::size_t { kParts, kLinks, kFrom, kTo, kFiles };
constexpr std::array<const char *, kFiles> kNames = {"/parts", "/connections", "/from", "/to"};

[[noreturn]] void refuse(const char *what) {
  throw std::runtime_error(std::string("dbopen, ") + what + ": " + std::strerror(errno) + "; " +
                           tp_last_error());
}

class DbOo1 final : public Oo1Store {
 public:
  DbOo1(const std::string &folder, Oo1Files files)
      : has_transactions_(files != Oo1Files::kPrivateTrees),
        is_of_hashes_(files == Oo1Files::kHashes) {
    if (has_transactions_) {
      tp_options options{};
      options.durability = 1;
      if (tp_paper_open((folder + "/home").c_str(), &options) != TP_OK) refuse("environment");
    }
    BTREEINFO tree{};
    tree.psize = kPageBytes;
    tree.cachesize = kCacheBytes;
    HASHINFO hash{};
    hash.bsize = kPageBytes;
    hash.cachesize = kCacheBytes;
    RECNOINFO recno{};
    recno.flags = R_FIXEDLEN;
    recno.reclen = sizeof(Connection);
    recno.psize = kPageBytes;
    recno.cachesize = kCacheBytes;
    std::string tree_of_links = folder + kNames[kLinks] + ".tree";
    recno.bfname = tree_of_links.data();
    for (std::size_t file = 0; file < kFiles; ++file) {
      if (file == kFrom) tree.flags = R_DUP;
      const bool is_hash = is_of_hashes_ && file != kLinks;
      const DBTYPE type = file == kLinks ? DB_RECNO : is_hash ? DB_HASH : DB_BTREE;
      const void *const info = file == kLinks ? static_cast<const void *>(&recno)
                               : is_hash      ? static_cast<const void *>(&hash)
                                              : static_cast<const void *>(&tree);
      files_[file] = tp_dbopen((folder + kNames[file]).c_str(), O_RDWR | O_CREAT, 0600, type,
                               has_transactions_ ? DB_SHARED | DB_TP : 0, info);
      if (files_[file] == nullptr) refuse("open");
    }
  }
  ~DbOo1() override {
    for (DB *const file : files_)
      if (file != nullptr) (void)file->close(file);
    if (has_transactions_) (void)tp_paper_close();
  }
  DbOo1(const DbOo1 &) = delete;
  DbOo1 &operator=(const DbOo1 &) = delete;

  void transact(Access access, const std::function<void()> &body) override {
    if (has_transactions_ && tp_paper_begin() == 0) refuse("begin");
    body();
    if (has_transactions_ && tp_paper_commit() != TP_OK) refuse("commit");
    if (has_transactions_ || access == Access::kReads) return;
    for (DB *const file : files_)
      if (file->sync(file, 0) != RET_SUCCESS) refuse("sync");
  }

  void look_up(std::uint32_t id, Seen *seen) override {
    std::uint32_t key = htobe32(id);
    Part part{};
    if (!get(kParts, {&key, sizeof key}, &part, sizeof part)) refuse("a part");
    seen->add(part.x, part.y);
  }

  void insert(const NewPart &made) override {
    std::uint32_t key = htobe32(made.part.id);
    put(kParts, {&key, sizeof key}, &made.part, sizeof made.part);
    std::array<recno_t, kConnections> numbers{};
    for (unsigned i = 0; i < kConnections; ++i) {
      numbers[i] = (made.part.id - 1) * kConnections + i + 1;
      put(kLinks, {&numbers[i], sizeof numbers[i]}, &made.connections[i],
          sizeof made.connections[i]);
      std::uint32_t to = htobe32(made.connections[i].to);
      if (is_of_hashes_)
        append(kTo, {&to, sizeof to}, numbers[i]);
      else
        put(kTo, {&to, sizeof to}, &numbers[i], sizeof numbers[i]);
      if (!is_of_hashes_) put(kFrom, {&key, sizeof key}, &numbers[i], sizeof numbers[i]);
    }
    if (is_of_hashes_) put(kFrom, {&key, sizeof key}, numbers.data(), sizeof numbers);
  }

 protected:
  void neighbours(std::uint32_t id, bool is_forward, std::vector<std::uint32_t> *found) override {
    numbers_.clear();
    const std::size_t file = is_forward ? kFrom : kTo;
    if (is_of_hashes_)
      read_hash(file, id);
    else
      read_tree(file, id);
    for (recno_t number : numbers_) {
      Connection connection{};
      if (!get(kLinks, {&number, sizeof number}, &connection, sizeof connection))
        refuse("a connection");
      found->push_back(is_forward ? connection.to : connection.from);
    }
  }

 private:
  [[nodiscard]] bool get(std::size_t file, DBT key, void *value, std::size_t bytes) {
    DBT data{};
    if (files_[file]->get(files_[file], &key, &data, 0) != RET_SUCCESS) return false;
    TMH_ASSERT(data.size == bytes);
    std::memcpy(value, data.data, bytes);
    return true;
  }
  void put(std::size_t file, DBT key, const void *value, std::size_t bytes) {
    const DBT data{const_cast<void *>(value), bytes};
    if (files_[file]->put(files_[file], &key, &data, 0) != RET_SUCCESS) refuse("put");
  }
  void append(std::size_t file, DBT key, recno_t number) {
    DBT data{};
    numbers_.clear();
    if (files_[file]->get(files_[file], &key, &data, 0) == RET_SUCCESS) take(data);
    numbers_.push_back(number);
    put(file, key, numbers_.data(), numbers_.size() * sizeof(recno_t));
  }
  void take(const DBT &data) {
    const std::size_t first = numbers_.size();
    numbers_.resize(first + data.size / sizeof(recno_t));
    std::memcpy(&numbers_[first], data.data, data.size);
  }
  void read_hash(std::size_t file, std::uint32_t id) {
    std::uint32_t key = htobe32(id);
    const DBT k{&key, sizeof key};
    DBT data{};
    if (files_[file]->get(files_[file], &k, &data, 0) == RET_SUCCESS) take(data);
  }
  void read_tree(std::size_t file, std::uint32_t id) {
    std::uint32_t wanted = htobe32(id);
    DBT key{&wanted, sizeof wanted}, data{};
    DB *const tree = files_[file];
    for (int status = tree->seq(tree, &key, &data, R_CURSOR);
         status == RET_SUCCESS && key.size == sizeof wanted &&
         std::memcmp(key.data, &wanted, sizeof wanted) == 0;
         status = tree->seq(tree, &key, &data, R_NEXT))
      take(data);
  }

  const bool has_transactions_, is_of_hashes_;
  std::array<DB *, kFiles> files_{};
  std::vector<recno_t> numbers_;  // of connections that are read
};

}  // namespace

std::unique_ptr<Oo1Store> open_db_oo1(const std::string &folder, Oo1Files files) {
  return std::make_unique<DbOo1>(folder, files);
}

}  // namespace tmh::bench
