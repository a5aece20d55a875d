// tests/db/groups.h -- random transactions on groups of records in five files of one environment,
// calls on a file without transactions, and the ledger that says what must be there.
// Shape:     the records of a group are in a tree, a tree with duplicates and a hash table; two
//            more groups are the records by number of a file, and of a text. A transaction changes
//            a group's clock first: a record with the number of its transactions, and a digest of
//            their identifiers. So a state tells which transactions are in it, and in which order.
//            Calls on the shared file follow from worker and number alone.
// Contexts:  one thread.
#pragma once

#define TP_NO_SHORT_NAMES
#include <tp/db.h>
#include <tp/paper.h>

#undef tp_lock

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace tmh::test::groups {

enum class File : std::uint32_t { kTree, kDuplicates, kTable, kNumbers, kText, kShared };
inline constexpr std::size_t kFiles = 6;
inline constexpr const char *kNames[kFiles] = {"tree",    "dups", "table",
                                               "numbers", "text", "shared"};

inline constexpr std::uint32_t kKeyGroups = 10, kNumbersGroup = 10, kTextGroup = 11, kGroups = 12;
inline constexpr std::uint32_t kKeys = 24;         // of a group, in each file
inline constexpr std::uint32_t kSharedKeys = 30;   // of a worker
inline constexpr std::uint64_t kRecordsMax = 150;  // by number

enum class Act : std::uint32_t {
  kPut,
  kErase,
  kEraseOne,
  kReplaceOne,
  kInsertBefore,
  kInsertBehind,
  kReplace,
  kEraseNumber
};

struct Call {
  File file{};
  Act act{};
  std::uint32_t group = 0, key = 0;
  std::uint32_t place = 0;  // among duplicates from 0, by number from 1
  std::uint32_t bytes = 0;
  std::uint64_t seed = 0;
};

struct Clock {
  std::uint64_t transactions = 0, digest = 0;
};

[[nodiscard]] inline std::uint64_t mixed(std::uint64_t value) noexcept {
  value = (value ^ (value >> 31)) * 0x7fb5d329728ea185;
  value = (value ^ (value >> 27)) * 0x81dadef4bc2dd44d;
  return value ^ (value >> 33);
}
[[nodiscard]] inline Clock behind(const Clock &clock, std::uint32_t group,
                                  std::uint64_t id) noexcept {
  return {clock.transactions + 1, mixed(clock.digest ^ mixed(id + 1) ^ group)};
}

// Of a text, too.
[[nodiscard]] inline std::string data_of(std::uint64_t seed, std::size_t bytes) {
  std::string made = std::to_string(seed);
  std::uint64_t state = seed;
  while (made.size() < bytes) made += static_cast<char>('a' + (state = mixed(state + 1)) % 26);
  made.resize(std::max<std::size_t>(bytes, 1));
  return made;
}
// Those of a group lie apart; some are longer than a page.
[[nodiscard]] inline std::string key_of(std::uint32_t group, std::uint32_t key) {
  std::string made = std::to_string((group * kKeys + key) * 7919 % 997) + "-" +
                     std::to_string(group) + "-" + std::to_string(key);
  if (key % 11 == 5) made.resize(600, 'k');
  return made;
}
[[nodiscard]] inline std::string clock_key(std::uint32_t group) {
  return "clock " + std::to_string(group);
}
[[nodiscard]] inline std::string shared_key(std::uint64_t worker, std::uint64_t key) {
  return std::to_string(key * 37 % 101) + "-" + std::to_string(worker);
}

[[nodiscard]] inline DBT dbt(const std::string &text) {
  return {const_cast<char *>(text.data()), text.size()};
}
[[nodiscard]] inline std::string text(const DBT &dbt) {
  return {static_cast<const char *>(dbt.data), dbt.size};
}

// What the files hold.
struct State {
  using Records = std::map<std::string, std::deque<std::string>>;  // the newest first
  std::array<Records, kFiles> by_key;
  std::vector<std::string> numbers, lines;
  std::array<Clock, kGroups> clocks{};

  [[nodiscard]] std::vector<std::string> &list(File file) {
    return file == File::kText ? lines : numbers;
  }
  [[nodiscard]] Records &of(File file) { return by_key[static_cast<std::size_t>(file)]; }
  // False: there is no such place.
  [[nodiscard]] bool apply(const Call &call) {
    if (call.file == File::kNumbers || call.file == File::kText) return apply_by_number(call);
    Records &records = of(call.file);
    const std::string key = key_of(call.group, call.key);
    std::deque<std::string> &there = records[key];
    const bool has_place = call.place < there.size();
    const auto at = there.begin() + static_cast<std::ptrdiff_t>(has_place ? call.place : 0);
    bool is_right = true;
    switch (call.act) {
      case Act::kPut:
        if (call.file != File::kDuplicates) there.clear();
        there.push_front(data_of(call.seed, call.bytes));
        break;
      case Act::kErase:
        there.clear();
        break;
      case Act::kEraseOne:
        is_right = has_place;
        if (has_place) there.erase(at);
        break;
      case Act::kReplaceOne:
        is_right = has_place;
        if (has_place) *at = data_of(call.seed, call.bytes);
        break;
      default:
        is_right = false;
    }
    if (there.empty()) records.erase(key);
    return is_right;
  }

 private:
  [[nodiscard]] bool apply_by_number(const Call &call) {
    std::vector<std::string> &all = list(call.file);
    const std::size_t end = all.size() + (call.act == Act::kInsertBefore ? 1 : 0);
    const std::size_t begin = call.act == Act::kInsertBehind ? 0 : 1;
    if (call.place < begin || call.place > end) return false;
    const auto at = all.begin() + static_cast<std::ptrdiff_t>(call.place);
    switch (call.act) {
      case Act::kInsertBefore:
        all.insert(at - 1, data_of(call.seed, call.bytes));
        return true;
      case Act::kInsertBehind:
        all.insert(at, data_of(call.seed, call.bytes));
        return true;
      case Act::kReplace:
        *(at - 1) = data_of(call.seed, call.bytes);
        return true;
      case Act::kEraseNumber:
        all.erase(at - 1);
        return true;
      default:
        return false;
    }
  }
};

// The first one.
[[nodiscard]] inline std::string difference(const State::Records &found,
                                            const State::Records &wanted) {
  const std::string counts =
      " (" + std::to_string(found.size()) + " keys of " + std::to_string(wanted.size()) + ")";
  const auto shown = [](const std::deque<std::string> &all) {
    std::string made;
    for (const std::string &one : all) made += ' ' + one.substr(0, 12);
    return made;
  };
  for (const auto &[key, data] : wanted)
    if (const auto at = found.find(key); at == found.end() || at->second != data)
      return key.substr(0, 20) + (at == found.end() ? " is missing" : " has" + shown(at->second)) +
             ", not" + shown(data) + counts;
  for (const auto &[key, data] : found)
    if (!wanted.contains(key)) return key.substr(0, 20) + " should not be there" + counts;
  return "nothing";
}

[[nodiscard]] inline std::string difference(const std::vector<std::string> &found,
                                            const std::vector<std::string> &wanted) {
  const std::string counts = std::to_string(found.size()) + " records of " +
                             std::to_string(wanted.size()) + ", other from number ";
  std::size_t at = 0;
  while (at < found.size() && at < wanted.size() && found[at] == wanted[at]) ++at;
  const auto shown = [&](const std::vector<std::string> &all) {
    return at < all.size() ? all[at].substr(0, 20) : std::string("none");
  };
  return counts + std::to_string(at + 1) + ": " + shown(found) + ", not " + shown(wanted);
}

// A call's transaction is a deadlock's victim.
struct Deadlock {};

// The files of a folder, which is their environment's, too; opened when they are used.
class Files {
 public:
  // durability: of tp_options; -1: as the environment is.
  Files(std::string folder, int durability) : folder_(std::move(folder)) {
    tp_options options{};
    options.durability = durability;
    options.first_look_us = 200;
    if (tp_paper_open(folder_.c_str(), &options) != TP_OK)
      throw std::runtime_error(std::string("tp_paper_open: ") + tp_last_error());
  }
  ~Files() {
    try {
      close();
    } catch (const std::exception &error) {
      std::fprintf(stderr, "%s\n", error.what());
      std::abort();
    }
  }
  Files(const Files &) = delete;
  Files &operator=(const Files &) = delete;

  [[nodiscard]] static std::string path(const std::string &folder, File file) {
    return folder + "/" + kNames[static_cast<std::size_t>(file)];
  }
  // Null and errno.
  [[nodiscard]] static DB *open(const std::string &folder, File file, int flags, int dbflags) {
    std::string path = Files::path(folder, file);
    BTREEINFO tree{};
    tree.psize = 512;
    tree.flags = file == File::kDuplicates ? R_DUP : 0;
    HASHINFO table{};
    table.bsize = 512;
    RECNOINFO numbers{};
    numbers.psize = 512;
    numbers.bval = '\n';
    if (file == File::kNumbers) numbers.bfname = path.data();
    switch (file) {
      case File::kTable:
        return tp_dbopen(path.c_str(), flags, 0600, DB_HASH, dbflags, &table);
      case File::kNumbers:
        return tp_dbopen(nullptr, flags, 0600, DB_RECNO, dbflags, &numbers);
      case File::kText:
        return tp_dbopen(path.c_str(), flags, 0600, DB_RECNO, dbflags, &numbers);
      default:
        return tp_dbopen(path.c_str(), flags, 0600, DB_BTREE, dbflags, &tree);
    }
  }

  [[nodiscard]] DB *of(File file) {
    DB *&db = dbs_[static_cast<std::size_t>(file)];
    if (db == nullptr)
      db = open(folder_, file, O_RDWR | O_CREAT,
                file == File::kShared ? DB_SHARED : DB_SHARED | DB_TP);
    if (db == nullptr) throw std::runtime_error(failed("open of ", file));
    return db;
  }
  void close(File file) {
    DB *const db = std::exchange(dbs_[static_cast<std::size_t>(file)], nullptr);
    if (db != nullptr && db->close(db) != 0) throw std::runtime_error(failed("close of ", file));
  }
  // In a transaction: what waits in the handle is stored, which may end in a deadlock.
  void close_in_transaction(File file) {
    DB *&db = dbs_[static_cast<std::size_t>(file)];
    if (db == nullptr) return;
    if (db->close(db) != 0) {
      if (errno == EDEADLK || errno == EBUSY) throw Deadlock{};
      throw std::runtime_error(failed("close of ", file));
    }
    db = nullptr;
  }
  void sync(File file) {
    DB *const db = of(file);
    if (db->sync(db, 0) != 0) throw std::runtime_error(failed("sync of ", file));
  }
  // All, and the environment.
  void close() {
    if (tp_paper_env() == nullptr) return;
    for (std::size_t i = 0; i < kFiles; ++i) close(static_cast<File>(i));
    if (tp_paper_close() != TP_OK)
      throw std::runtime_error(std::string("tp_paper_close: ") + tp_last_error());
  }
  [[nodiscard]] const std::string &folder() const noexcept { return folder_; }

  // ---- In a transaction ---------------------------------------------------------------------

  [[nodiscard]] Clock clock(std::uint32_t group) {
    Clock found;
    const std::string key = clock_key(group);
    const DBT k = dbt(key);
    DBT data{};
    DB *const db = of(File::kTree);
    if (checked(db->get(db, &k, &data, 0), File::kTree) == 0)
      std::memcpy(&found, data.data, sizeof found);
    return found;
  }
  void set_clock(std::uint32_t group, const Clock &clock) {
    const std::string key = clock_key(group);
    DBT k = dbt(key);
    const DBT data{const_cast<Clock *>(&clock), sizeof clock};
    DB *const db = of(File::kTree);
    (void)checked(db->put(db, &k, &data, 0), File::kTree);
  }
  [[nodiscard]] std::uint32_t count(File file) {
    recno_t last = 0;
    DBT key{}, data{};
    DB *const db = of(file);
    if (checked(db->seq(db, &key, &data, R_LAST), file) == 0)
      std::memcpy(&last, key.data, sizeof last);
    return last;
  }
  // How many records a key has.
  [[nodiscard]] std::uint32_t count(File file, const std::string &wanted) {
    std::uint32_t found = 0;
    DBT key = dbt(wanted), data{};
    DB *const db = of(file);
    for (unsigned how = R_CURSOR; checked(db->seq(db, &key, &data, how), file) == 0; how = R_NEXT) {
      if (text(key) != wanted) break;
      ++found;
    }
    return found;
  }
  void perform(const Call &call) {
    DB *const db = of(call.file);
    const std::string data = data_of(call.seed, call.bytes);
    const DBT d = dbt(data);
    if (call.file == File::kNumbers || call.file == File::kText) {
      recno_t number = call.place;
      DBT k{&number, sizeof number};
      const unsigned how = call.act == Act::kInsertBefore   ? unsigned{R_IBEFORE}
                           : call.act == Act::kInsertBehind ? unsigned{R_IAFTER}
                                                            : 0U;
      (void)checked(call.act == Act::kEraseNumber ? db->del(db, &k, 0) : db->put(db, &k, &d, how),
                    call.file);
      return;
    }
    const std::string key = key_of(call.group, call.key);
    DBT k = dbt(key);
    if (call.act == Act::kPut) {
      (void)checked(db->put(db, &k, &d, 0), call.file);
    } else if (call.act == Act::kErase) {
      (void)checked(db->del(db, &k, 0), call.file);
    } else {
      DBT at{};
      (void)checked(db->seq(db, &k, &at, R_CURSOR), call.file);
      for (std::uint32_t i = 0; i < call.place; ++i)
        (void)checked(db->seq(db, &k, &at, R_NEXT), call.file);
      (void)checked(
          call.act == Act::kEraseOne ? db->del(db, &k, R_CURSOR) : db->put(db, &k, &d, R_CURSOR),
          call.file);
    }
  }

  // ---- Of all --------------------------------------------------------------------------------

  // REQUIRES: no other process has them.
  [[nodiscard]] State read() {
    State state;
    if (tp_paper_begin() == 0) throw std::runtime_error(tp_last_error());
    for (std::size_t i = 0; i < kFiles; ++i) {
      const auto file = static_cast<File>(i);
      read(of(file), file, &state);
    }
    if (tp_paper_commit() != TP_OK) throw std::runtime_error(tp_last_error());
    return state;
  }
  static void read(DB *db, File file, State *state) {
    DBT key{}, data{};
    int result = 0;
    for (unsigned how = R_FIRST; (result = db->seq(db, &key, &data, how)) == 0; how = R_NEXT) {
      if (file == File::kNumbers || file == File::kText) {
        state->list(file).push_back(text(data));
        continue;
      }
      unsigned group = 0;
      if (std::sscanf(text(key).c_str(), "clock %u", &group) == 1 && group < kGroups &&
          data.size == sizeof(Clock))
        std::memcpy(&state->clocks[group], data.data, sizeof(Clock));
      else
        state->of(file)[text(key)].push_back(text(data));
    }
    if (result != 1) throw std::runtime_error(failed("scan of ", file));
  }
  // Empty: each file is whole.
  [[nodiscard]] static std::string wrong_in(const std::string &folder) {
    for (std::size_t i = 0; i < kFiles; ++i) {
      const auto file = static_cast<File>(i);
      if (file == File::kText) continue;
      tp_db_info info{};
      if (tp_db_check(path(folder, file).c_str(), &info) != 0) return failed("check of ", file);
      if (info.wrong != nullptr) return std::string(kNames[i]) + ": " + info.wrong;
    }
    return "";
  }
  [[nodiscard]] static std::string failed(const char *call, File file) {
    const int error = errno;
    return std::string(call) + kNames[static_cast<std::size_t>(file)] + ": " +
           std::strerror(error) + " (" + tp_last_error() + ")";
  }

 private:
  static int checked(int result, File file) {
    if (result != -1) return result;
    if (errno == EDEADLK) throw Deadlock{};
    throw std::runtime_error(failed("a call of ", file));
  }

  std::string folder_;
  std::array<DB *, kFiles> dbs_{};
};

// The calls on the shared file. Each is an instance.
struct SharedCalls {
  [[nodiscard]] static bool erases(std::uint64_t number) noexcept { return number % 5 == 4; }
  [[nodiscard]] static std::string key(std::uint64_t worker, std::uint64_t number) {
    return shared_key(worker, (erases(number) ? number * 7 : number) % kSharedKeys);
  }
  [[nodiscard]] static std::string data(std::uint64_t worker, std::uint64_t number) {
    const std::uint64_t seed = mixed(worker << 32 | number);
    return data_of(seed, seed % 16 == 0 ? 700 + seed % 900 : seed % 60);
  }
  static void perform(Files *files, std::uint64_t worker, std::uint64_t number) {
    const std::string k = key(worker, number), d = data(worker, number);
    DBT dk = dbt(k);
    const DBT dd = dbt(d);
    DB *const db = files->of(File::kShared);
    if ((erases(number) ? db->del(db, &dk, 0) : db->put(db, &dk, &dd, 0)) == -1)
      throw std::runtime_error(Files::failed("a call of ", File::kShared));
  }
  static void apply(std::map<std::string, std::string> *records, std::uint64_t worker,
                    std::uint64_t number) {
    if (erases(number))
      records->erase(key(worker, number));
    else
      (*records)[key(worker, number)] = data(worker, number);
  }
};

// What a transaction is about to commit, as bytes of a note.
struct Intent {
  struct Touched {
    std::uint64_t group = 0;
    Clock before;
  };
  std::vector<Touched> groups;
  std::vector<Call> calls;

  [[nodiscard]] std::vector<std::byte> bytes() const {
    const std::uint64_t count = groups.size();
    std::vector<std::byte> all(sizeof count + count * sizeof(Touched) +
                               calls.size() * sizeof(Call));
    std::byte *to = all.data();
    std::memcpy(to, &count, sizeof count);
    if (count != 0) std::memcpy(to += sizeof count, groups.data(), count * sizeof(Touched));
    if (!calls.empty())
      std::memcpy(to + count * sizeof(Touched), calls.data(), calls.size() * sizeof(Call));
    return all;
  }
  [[nodiscard]] static Intent of(std::span<const std::byte> bytes) {
    Intent made;
    std::uint64_t count = 0;
    std::memcpy(&count, bytes.data(), sizeof count);
    bytes = bytes.subspan(sizeof count);
    made.groups.resize(count);
    if (count != 0) std::memcpy(made.groups.data(), bytes.data(), count * sizeof(Touched));
    bytes = bytes.subspan(count * sizeof(Touched));
    made.calls.resize(bytes.size() / sizeof(Call));
    if (!made.calls.empty()) std::memcpy(made.calls.data(), bytes.data(), bytes.size());
    return made;
  }
};

// Of what was promised: which states are right.
class Ledger {
 public:
  void intend(std::uint64_t id, Intent intent) { intents_[id] = std::move(intent); }
  void require(std::uint64_t id) { required_.insert(id); }
  void note_aborted(std::uint64_t id) { intents_.erase(id); }
  void note_shared_begun(std::uint64_t worker, std::uint64_t number) {
    shared_[worker].most = number + 1;
  }
  void require_shared(std::uint64_t worker, std::uint64_t calls) {
    shared_[worker].least = std::max(shared_[worker].least, calls);
  }
  // Just these are there.
  void settle(const std::set<std::uint64_t> &ids,
              const std::map<std::uint64_t, std::uint64_t> &shared) {
    required_ = ids;
    std::erase_if(intents_, [&](const auto &intent) { return !ids.contains(intent.first); });
    for (const auto &[worker, calls] : shared) shared_[worker] = {calls, calls};
  }

  // Empty: it is right. Then `ids` and `shared` are those that are there.
  [[nodiscard]] std::string examine(State &state, std::set<std::uint64_t> *ids,
                                    std::map<std::uint64_t, std::uint64_t> *shared) const {
    std::array<std::vector<std::uint64_t>, kGroups> orders;
    if (std::string why = find_orders(state, &orders); !why.empty()) return why;
    ids->clear();
    std::map<std::uint64_t, std::size_t> found;
    for (const auto &order : orders)
      for (const std::uint64_t id : order) ++found[id];
    for (const auto &[id, groups] : found) {
      if (groups != intents_.at(id).groups.size()) return name_of(id) + " is there in part";
      ids->insert(id);
    }
    for (const std::uint64_t id : required_)
      if (!ids->contains(id) && !intents_.at(id).groups.empty())
        return name_of(id) + " was told that it is durable";
    if (std::string why = compare(state, orders); !why.empty()) return why;
    return examine_shared(state, shared);
  }

 private:
  struct Calls {
    std::uint64_t least = 0, most = 0;
  };
  [[nodiscard]] static std::string name_of(std::uint64_t id) {
    return "transaction " + std::to_string(id & 0xffff'ffff) + " of worker " +
           std::to_string(id >> 32);
  }
  // From each clock back to its first transaction.
  [[nodiscard]] std::string find_orders(
      const State &state, std::array<std::vector<std::uint64_t>, kGroups> *orders) const {
    std::array<std::map<std::uint64_t, std::pair<std::uint64_t, Clock>>, kGroups> by_digest;
    for (const auto &[id, intent] : intents_)
      for (const Intent::Touched &touched : intent.groups) {
        const auto group = static_cast<std::uint32_t>(touched.group);
        by_digest[group][behind(touched.before, group, id).digest] = {id, touched.before};
      }
    for (std::uint32_t group = 0; group < kGroups; ++group) {
      for (Clock at = state.clocks[group]; at.transactions != 0;) {
        const auto known = by_digest[group].find(at.digest);
        if (known == by_digest[group].end())
          return "group " + std::to_string(group) + ": its transaction " +
                 std::to_string(at.transactions) + " did not commit";
        (*orders)[group].push_back(known->second.first);
        if (known->second.second.transactions + 1 != at.transactions)
          return "group " + std::to_string(group) + ": a clock's number is wrong";
        at = known->second.second;
      }
      std::reverse((*orders)[group].begin(), (*orders)[group].end());
    }
    return "";
  }
  [[nodiscard]] std::string compare(
      State &state, const std::array<std::vector<std::uint64_t>, kGroups> &orders) const {
    State model;
    for (std::uint32_t group = 0; group < kGroups; ++group)
      for (const std::uint64_t id : orders[group])
        for (const Call &call : intents_.at(id).calls)
          if (call.group == group && !model.apply(call))
            return name_of(id) + " has changed a record that is not there";
    for (const File file : {File::kTree, File::kDuplicates, File::kTable})
      if (state.of(file) != model.of(file))
        return std::string(kNames[static_cast<std::size_t>(file)]) + ": " +
               difference(state.of(file), model.of(file));
    for (const File file : {File::kNumbers, File::kText})
      if (state.list(file) != model.list(file))
        return std::string(kNames[static_cast<std::size_t>(file)]) + ": " +
               difference(state.list(file), model.list(file));
    return "";
  }
  [[nodiscard]] std::string examine_shared(State &state,
                                           std::map<std::uint64_t, std::uint64_t> *shared) const {
    shared->clear();
    std::map<std::uint64_t, std::map<std::string, std::string>> found;
    for (const auto &[key, data] : state.of(File::kShared)) {
      if (data.size() != 1) return "shared: a key twice";
      found[std::stoull(key.substr(key.find('-') + 1))][key] = data.front();
    }
    for (const auto &known : shared_) {
      const std::uint64_t worker = known.first;
      const Calls calls = known.second;
      std::map<std::string, std::string> model;
      std::uint64_t done = 0;
      bool is_found = false;
      const auto look = [&] {
        is_found = is_found || (done >= calls.least && model == found[worker]);
        if (is_found) shared->insert({worker, done});  // the first
      };
      for (look(); done < calls.most && !is_found; look()) {
        SharedCalls::apply(&model, worker, done);
        ++done;
      }
      if (!is_found)
        return "shared: no prefix of worker " + std::to_string(worker) + "'s calls, of " +
               std::to_string(calls.least) + " to " + std::to_string(calls.most);
      found.erase(worker);
    }
    return found.empty() ? "" : "shared: records of a worker that has made no call";
  }

  std::map<std::uint64_t, Intent> intents_;
  std::set<std::uint64_t> required_;
  std::map<std::uint64_t, Calls> shared_;
};

}  // namespace tmh::test::groups
