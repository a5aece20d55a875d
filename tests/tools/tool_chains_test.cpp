// tests/tools/tool_chains_test.cpp -- tmh check on the chains of transactions of tp.h, and
// tp_open() on what is damaged there.
// Invariants: (1) chains that a closed domain has are sound, and who has not ended is named.
//             (2) whichever byte is damaged, the check ends, and tp_open() and what follows end
//             with an error or work. (3) what the check calls sound, tp_open() does not call
//             damaged.
#include <gtest/gtest.h>
#include <tp.h>

#include <fcntl.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include <tmh/tmh.hpp>

#include "compat/libtp/chain_layout.h"
#include "programs/json.h"
#include "tests/support/children.h"
#include "tests/support/durable_folder.h"
#include "tests/support/seed.h"
#include "tests/support/temp_folder.h"
#include "tests/support/tool.h"
#include "tools/chain_check.h"
#include "tools/domain_files.h"

namespace tmh::test {
namespace {

using programs::Json;
namespace fs = std::filesystem;

constexpr std::uint32_t kNote = 5, kElsewhere = 6;

int undo_nothing(tp_step_t *, const tp_record *, void *) { return 0; }
int redo_nothing(const tp_record *, void *) { return 0; }

int open(const std::string &folder, tp_env **env) {
  const tp_type types[] = {{kNote, "note", undo_nothing, nullptr, TP_FIELDS, nullptr},
                           {kElsewhere, "file", undo_nothing, nullptr, TP_FIELDS, redo_nothing}};
  tp_options options{};
  options.durability = 1;
  options.types = types;
  options.type_count = 2;
  return tp_open(folder.c_str(), &options, env);
}

struct Work {
  std::uint64_t *words;
  std::uint32_t type;  // 0: bytes
  std::size_t bytes;
};
int log_one(tp_step_t *step, void *argument) {
  const Work &work = *static_cast<const Work *>(argument);
  if (work.type == 0) return tp_log_bytes(step, work.words, work.bytes, nullptr);
  const std::vector<char> data(work.bytes, 'x');
  return tp_log(step, work.type, data.data(), data.size(), nullptr);
}

class ToolChains : public ::testing::Test {
 protected:
  std::string domain() const { return folder_ / "domain"; }
  std::string chains() const { return domain() + "/" + tp::kChainFile; }

  // Closed: a detached transaction with locks and records in several blocks, a small one, two that
  // are kept, free blocks.
  void make() {
    Domain::open(domain(), durable_options()).close();  // with a small log
    tp_env *env = nullptr;
    ASSERT_EQ(open(domain(), &env), TP_OK) << tp_last_error();
    void *address = nullptr;
    ASSERT_EQ(tp_map(env, "words", 16 * 4096, &address), TP_OK) << tp_last_error();
    auto *const words = static_cast<std::uint64_t *>(address);
    const auto run = [&](const std::vector<Work> &all) {
      tp_txn *txn = nullptr;
      EXPECT_EQ(tp_begin(env, &txn), TP_OK) << tp_last_error();
      EXPECT_EQ(tp_lock(txn, {7, tp_txn_id(txn)}, TP_EXCLUSIVE, TP_TRY), TP_OK);
      for (Work work : all)
        EXPECT_EQ(tp_step(txn, TP_FIELDS, log_one, &work), TP_OK) << tp_last_error();
      return txn;
    };
    tp_txn *const aborted = run({{words, 0, 30000}});
    for (tp_id &id : detached_) {
      std::vector<Work> all = {{words, 0, 24}, {words, kNote, 100}};
      if (&id == detached_.data()) all.insert(all.end(), 3, {words + 8, 0, 5000});
      ASSERT_EQ(tp_detach(run(all), &id), TP_OK) << tp_last_error();
    }
    for (const std::size_t bytes : {64u, 9000u})
      ASSERT_EQ(tp_commit(run({{words, kElsewhere, bytes}})), TP_OK) << tp_last_error();
    ASSERT_EQ(tp_abort(aborted), TP_OK) << tp_last_error();
    ASSERT_EQ(tp_close(env), TP_OK) << tp_last_error();
    whole_ = read_file(chains());
    std::memcpy(&blocks_, whole_.data() + offsetof(tp::ChainHeader, blocks), sizeof blocks_);
    ASSERT_GT(blocks_, 8u);
    fs::copy(domain(), folder_ / "copy");
  }
  void restore() {
    fs::remove_all(domain());
    fs::copy(folder_ / "copy", domain());
  }
  tools::Part look() const {
    const auto control = tools::read_control(domain());
    for (const storage::SegmentRecordV1 &segment : control->segments)
      if (storage::is_used(segment) && tools::holds_chains(segment))
        return tools::check_chains(domain(), segment);
    ADD_FAILURE() << "no chains";
    return {};
  }
  Json part(int exit_code) const {
    const ProgramEnd end = run_tmh({"check", domain(), "--json"});
    EXPECT_EQ(end.exit_code, exit_code) << end.out << end.err;
    const Json document = Json::parse(end.out, Json::IfBroken::kDiscard);
    expect_valid("check", document.dump());
    for (const Json &one : document.at("parts"))
      if (one.at("part") == "chains") return one;
    ADD_FAILURE() << document.dump();
    return {};
  }
  void damage(std::size_t offset, const std::string &bytes) { patch_file(chains(), offset, bytes); }
  template <class T>
  void expect_damage(std::size_t offset, T value, const std::string &message) {
    std::string bytes(sizeof value, '\0');
    std::memcpy(bytes.data(), &value, sizeof value);
    damage(offset, bytes);
    const tools::Part part = look();
    EXPECT_EQ(part.state, tools::PartState::kDamaged) << message;
    EXPECT_NE(part.message.find(message), std::string::npos) << part.message << "; " << message;
    damage(offset, whole_.substr(offset, sizeof value));
  }
  std::size_t block(std::uint32_t index) const { return index * tp::kBlockBytes; }
  template <class T>
  T at(std::size_t offset) const {
    T value;
    std::memcpy(&value, whole_.data() + offset, sizeof value);
    return value;
  }
  // Where the records lie, and their parts.
  std::vector<std::size_t> records() const {
    std::vector<std::size_t> all;
    for (std::uint32_t i = 1; i < blocks_; ++i) {
      const auto kind = at<tp::BlockKind>(block(i));
      if (kind != tp::BlockKind::kHead && kind != tp::BlockKind::kKept) continue;
      for (auto place = at<std::uint64_t>(block(i) + offsetof(tp::BlockHead, last)); place != 0;
           place = at<std::uint64_t>(place))
        all.push_back(place);
    }
    return all;
  }
  // The first head of that kind with more blocks behind it.
  std::uint32_t long_head(tp::BlockKind kind) const {
    for (std::uint32_t i = 1; i < blocks_; ++i)
      if (at<tp::BlockKind>(block(i)) == kind && at<std::uint32_t>(block(i) + 4) != 0) return i;
    ADD_FAILURE() << "none";
    return 0;
  }
  // Opens, works, closes: in a child, which neither crashes nor hangs. What tp_open() returned.
  int open_and_work() const {
    int opened = -1;
    const std::string told = folder_ / "told";
    const ChildEnd end = run_in_child("open", [&] {
      tp_env *env = nullptr;
      const int error = open(domain(), &env);
      write_file(told, std::to_string(error));
      if (error != TP_OK) return;
      std::uint64_t word = 0;
      Work work{&word, kElsewhere, 6000};
      for (int i = 0; i < 4; ++i) {
        tp_txn *txn = nullptr;
        if (tp_begin(env, &txn) != TP_OK) break;
        (void)tp_step(txn, TP_FIELDS, log_one, &work);
        if ((i % 2 == 0 ? tp_commit(txn) : tp_abort(txn)) != TP_OK) break;
      }
      (void)tp_log_forget(env, UINT64_MAX);
      (void)tp_close(env);
    });
    EXPECT_TRUE(end.succeeded()) << "signal " << end.signal << (end.hung ? ", hung" : "");
    if (end.succeeded()) opened = std::stoi(read_file(told));
    return opened;
  }

  MemoryFolder folder_;
  std::array<tp_id, 2> detached_{};
  std::string whole_;
  std::uint32_t blocks_ = 0;
};

TEST_F(ToolChains, WholeChainsAreSoundAndTransactionsThatHaveNotEndedAreNamed) {
  make();
  const Json found = part(0);
  EXPECT_EQ(found.at("state"), "sound") << found.dump();
  const auto message = found.at("message").get<std::string>();
  EXPECT_NE(message.find("2 transactions not ended:"), std::string::npos) << message;
  for (const tp_id id : detached_)
    EXPECT_NE(message.find(" " + std::to_string(id)), std::string::npos) << message;
  EXPECT_NE(message.find("2 kept"), std::string::npos) << message;
  EXPECT_EQ(open_and_work(), TP_OK);
  const tools::Part after = look();
  EXPECT_EQ(after.state, tools::PartState::kSound) << after.message;
  EXPECT_EQ(after.message.find("not ended"), std::string::npos) << after.message;
}

TEST_F(ToolChains, AnOpenDomainsChainsAreUnchecked) {
  make();
  const ChildEnd end = run_in_child("open", [this] {
    tp_env *env = nullptr;
    EXPECT_EQ(open(domain(), &env), TP_OK) << tp_last_error();
    EXPECT_EQ(part(0).at("state"), "unchecked");
    EXPECT_EQ(tp_close(env), TP_OK);
  });
  EXPECT_TRUE(end.succeeded());
}

TEST_F(ToolChains, EachKindOfDamageIsNamed) {
  make();
  constexpr std::uint32_t kFar = 0xffff'fff0;
  const std::uint32_t head = long_head(tp::BlockKind::kHead);
  const std::uint32_t kept = long_head(tp::BlockKind::kKept);
  const std::size_t next = offsetof(tp::BlockHead, next);
  const auto last = at<std::uint64_t>(block(head) + offsetof(tp::BlockHead, last));
  const std::size_t record = block(static_cast<std::uint32_t>(last >> 12)) + last % 4096;
  expect_damage<std::uint64_t>(offsetof(tp::ChainHeader, magic), 1, "none of chains");
  for (const std::uint32_t blocks : {0u, kFar})
    expect_damage(offsetof(tp::ChainHeader, blocks), blocks, "its header names");
  expect_damage(offsetof(tp::ChainHeader, numbers), ~std::uint64_t{0}, "nobody has drawn");
  expect_damage<std::uint64_t>(offsetof(tp::ChainHeader, numbers), 1, "nobody has drawn");
  expect_damage(offsetof(tp::ChainHeader, first_free), kFar, "which is not there");
  expect_damage(offsetof(tp::ChainHeader, first_free), head, "which is of another kind");
  expect_damage(offsetof(tp::ChainHeader, first_kept), head, "the list of kept chains");
  expect_damage(offsetof(tp::ChainHeader, last_kept), head, "the list of kept chains ends");
  expect_damage(block(head), std::uint32_t{99}, "is of no kind");
  expect_damage(block(head) + next, kFar, "which is not there");
  expect_damage(block(head) + next, head, "which has another place");
  expect_damage(block(head) + next, at<std::uint32_t>(block(kept) + next), "the chain of block");
  expect_damage(block(kept) + offsetof(tp::BlockHead, next_kept), kept, "list of kept chains");
  expect_damage(block(kept) + offsetof(tp::BlockHead, committed_lsn), std::uint64_t{1},
                "committed before");
  expect_damage(block(head) + offsetof(tp::BlockHead, last), std::uint64_t{kFar} << 12 | 64,
                "is not in it");
  expect_damage(block(head) + offsetof(tp::BlockHead, last), last + 4, "no record's place");
  expect_damage(record, last, "do not lie one behind the other");
  const auto transaction = at<std::uint64_t>(block(head) + offsetof(tp::BlockHead, transaction));
  expect_damage(record + offsetof(tp::RecordHead, lsn), transaction, "an earlier transaction");
  expect_damage(record + offsetof(tp::RecordHead, lsn), transaction + 1, "LSNs do not fall");
  expect_damage(record + offsetof(tp::RecordHead, lsn), ~std::uint64_t{0}, "another one");
  expect_damage(record + offsetof(tp::RecordHead, bytes), kFar, "longer than its block");
  expect_damage(record + offsetof(tp::RecordHead, type), std::uint32_t{0}, "of no type");
}

TEST_F(ToolChains, WhicheverByteIsDamagedTheCheckEnds) {
  make();
  std::mt19937_64 random(seed());
  std::size_t damaged = 0;
  for (std::size_t i = 0; i < blocks_ * tp::kBlockBytes; ++i) {
    // Of a record's bytes nothing is said: of each block its beginning, and some.
    if (i % tp::kBlockBytes > 256 && random() % 16 != 0) continue;
    damage(i, std::string(1, static_cast<char>(whole_[i] ^ static_cast<char>(1 + random() % 255))));
    if (look().state == tools::PartState::kDamaged) ++damaged;
    damage(i, whole_.substr(i, 1));
  }
  EXPECT_GT(damaged, 100u);
  EXPECT_EQ(look().state, tools::PartState::kSound);
}

TEST_F(ToolChains, WhicheverWordIsDamagedOpeningEnds) {
  make();
  std::mt19937_64 random(seed());
  const std::vector<std::size_t> records = this->records();
  ASSERT_GT(records.size(), 10u);
  constexpr int kCases = 300;
  for (int i = 0; i < kCases && !HasFailure(); ++i) {
    restore();
    const std::size_t record = records[random() % records.size()];
    const std::size_t some_word[] = {
        random() % 10 * 4,  // of the header
        block(1 + static_cast<std::uint32_t>(random() % (blocks_ - 1))) + random() % 12 * 4,
        record + random() % 6 * 4, record + offsetof(tp::RecordHead, before),
        record + sizeof(tp::RecordHead) + random() % 6 * 4};
    const std::size_t word = some_word[random() % std::size(some_word)];
    const auto some_block = static_cast<std::uint32_t>(random() % blocks_);
    // A record's place is its offset in the file.
    const std::uint32_t values[] = {static_cast<std::uint32_t>(random()),
                                    ~std::uint32_t{0},
                                    0,
                                    300,
                                    some_block,
                                    static_cast<std::uint32_t>(records[random() % records.size()]),
                                    static_cast<std::uint32_t>(records[random() % records.size()]),
                                    at<std::uint32_t>(record)};
    const std::uint32_t value = values[random() % std::size(values)];
    std::string bytes(sizeof value, '\0');
    std::memcpy(bytes.data(), &value, sizeof value);
    damage(word, bytes);
    SCOPED_TRACE("word " + std::to_string(word) + ": " + std::to_string(value));
    const tools::Part part = look();
    const int opened = open_and_work();
    if (part.state == tools::PartState::kSound) {
      EXPECT_NE(opened, static_cast<int>(Errc::kCorrupt)) << part.message;
    }
  }
}

}  // namespace
}  // namespace tmh::test
