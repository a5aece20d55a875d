// tests/tp/bank.h -- accounts, a page each, that transactions of tp.h change.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <tp.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace tmh::test {

inline constexpr std::uint32_t kAdded = 1;

struct Added {
  std::uint64_t *word;
  std::uint64_t amount;
};

inline std::uint64_t load(tp_step_t *step, const std::uint64_t *word) {
  std::uint64_t value = 0;
  tp_load(step, word, &value, sizeof value);
  return value;
}
inline void store(tp_step_t *step, std::uint64_t *word, std::uint64_t value) {
  tp_store(step, word, &value, sizeof value);
}
inline int take_back(tp_step_t *step, const tp_record *record, void *) {
  Added added{};
  std::memcpy(&added, record->data, sizeof added);
  store(step, added.word, load(step, added.word) - added.amount);
  return 0;
}
inline int call(tp_step_t *step, void *argument) {
  return (*static_cast<const std::function<int(tp_step_t *)> *>(argument))(step);
}

class Bank {
 public:
  Bank(const std::string &folder, std::size_t accounts, int durability = 1, unsigned flags = 0)
      : accounts_(accounts) {
    const tp_type type{kAdded, "added", take_back, nullptr, TP_FIELDS, nullptr};
    tp_options options{};
    options.durability = durability;
    options.types = &type;
    options.type_count = 1;
    options.first_look_us = 200;
    options.flags = flags;
    EXPECT_EQ(tp_open(folder.c_str(), &options, &env_), TP_OK) << tp_last_error();
    void *address = nullptr;
    EXPECT_EQ(tp_map(env_, "accounts", accounts * 4096, &address), TP_OK) << tp_last_error();
    words_ = static_cast<std::uint64_t *>(address);
    EXPECT_EQ(tp_buf_open(env_, "accounts", O_RDWR, 0, &fid_), TP_OK) << tp_last_error();
  }
  ~Bank() { EXPECT_TRUE(env_ == nullptr || close() == TP_OK) << tp_last_error(); }
  int close() { return tp_close(std::exchange(env_, nullptr)); }
  Bank(const Bank &) = delete;
  Bank &operator=(const Bank &) = delete;

  [[nodiscard]] tp_env *env() const { return env_; }
  [[nodiscard]] int fid() const { return fid_; }
  [[nodiscard]] std::uint64_t *word(std::size_t account) const { return words_ + account * 512; }

  int step(tp_txn *txn, unsigned flags, const std::function<int(tp_step_t *)> &body) const {
    return tp_step(txn, flags, call, const_cast<std::function<int(tp_step_t *)> *>(&body));
  }
  int add(tp_txn *txn, std::size_t account, std::uint64_t amount, unsigned flags,
          bool by_bytes) const {
    return step(txn, flags, [&](tp_step_t *running) {
      const Added added{word(account), amount};
      const int error = by_bytes ? tp_log_bytes(running, added.word, sizeof *added.word, nullptr)
                                 : tp_log(running, kAdded, &added, sizeof added, nullptr);
      if (error != TP_OK) return error;
      store(running, added.word, load(running, added.word) + amount);
      return 0;
    });
  }
  // The same in a pinned page.
  int add_pinned(tp_txn *txn, std::size_t account, std::uint64_t amount, bool by_bytes) const {
    void *page = nullptr;
    if (const int error = tp_buf_pin(txn, fid_, account, nullptr, &page); error != TP_OK)
      return error;
    auto *const at = static_cast<std::uint64_t *>(page);
    const Added added{at, amount};
    const int error = by_bytes
                          ? tp_log_bytes(tp_running_step(txn), at, sizeof *at, nullptr)
                          : tp_log(tp_running_step(txn), kAdded, &added, sizeof added, nullptr);
    if (error == TP_OK) *at += amount;
    const int end = tp_buf_unpin(txn, page);
    return error != TP_OK ? error : end;
  }
  [[nodiscard]] std::vector<std::uint64_t> read_all() const {
    std::vector<std::uint64_t> values(accounts_);
    tp_txn *txn = nullptr;
    EXPECT_EQ(tp_begin(env_, &txn), TP_OK) << tp_last_error();
    EXPECT_EQ(step(txn, TP_PAGES,
                   [&](tp_step_t *running) {
                     for (std::size_t i = 0; i < values.size(); ++i)
                       values[i] = load(running, word(i));
                     return 0;
                   }),
              TP_OK);
    EXPECT_EQ(tp_commit(txn), TP_OK);
    return values;
  }
  // No lock of the first ones is left.
  void expect_free(std::size_t accounts) const {
    tp_txn *txn = nullptr;
    EXPECT_EQ(tp_begin(env_, &txn), TP_OK) << tp_last_error();
    for (std::size_t i = 0; i < accounts; ++i)
      EXPECT_EQ(tp_lock(txn, {1, i}, TP_EXCLUSIVE, TP_TRY), TP_OK) << "account " << i;
    EXPECT_EQ(tp_abort(txn), TP_OK);
  }

 private:
  const std::size_t accounts_;
  tp_env *env_ = nullptr;
  std::uint64_t *words_ = nullptr;
  int fid_ = -1;
};

}  // namespace tmh::test
