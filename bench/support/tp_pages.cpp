// bench/support/tp_pages.cpp -- the bank of bench/tp in instances: each transfer is one.
#include "bench/support/tp_pages.h"

#include <stdexcept>
#include <system_error>

#include <tmh/field.hpp>
#include <tmh/site.hpp>
#include <tmh/tmh.hpp>

#include "bench/support/modes.h"
#include "bench/support/tp_layout.h"
#include "platform/assert.h"

namespace tmh::bench {

namespace {

Durability durability_of(int durability) noexcept {
  return durability == 0   ? Durability::kNone
         : durability == 1 ? Durability::kStrict
                           : Durability::kBuffered;
}

class InstancesBank final : public BankSession {
 public:
  InstancesBank(const std::string &folder, const BankScale &scale, unsigned process, int durability,
                Instances instances)
      : durability_(durability_of(durability)),
        is_of_lines_(instances == Instances::kLines),
        process_(process),
        domain_(open(folder, durability_, instances)),
        segment_(domain_.map("bank", shape(scale))),
        layout_(scale, segment_.data()),
        site_(domain_, "transfers") {
    TMH_ASSERT(process < kTellingProcesses);
  }
  ~InstancesBank() override {
    std::error_code ignored;  // what was committed is durable, or was never promised to be
    (void)domain_.close(ignored);
  }
  InstancesBank(const InstancesBank &) = delete;
  InstancesBank &operator=(const InstancesBank &) = delete;

  void transact(const Transfer &transfer) override {
    std::int64_t *const balances[] = {layout_.balance(layout_.account(transfer.account)),
                                      layout_.balance(layout_.teller(transfer.teller)),
                                      layout_.balance(transfer.branch)};
    HistoryRow *const row = layout_.history(layout_.row(process_, transfer.number));
    if (!is_of_lines_) {
      atomically(site_, [&] {
        for (std::int64_t *const balance : balances) *balance += transfer.amount;
        *row = {transfer.number, transfer.teller, transfer.account, transfer.amount};
      });
      return;
    }
    atomically(site_, [&](Fields) {
      for (std::int64_t *const balance : balances) field_of(balance) += transfer.amount;
      field_of(&row->number) = transfer.number;
      field_of(&row->teller) = transfer.teller;
      field_of(&row->account) = transfer.account;
      field_of(&row->amount) = transfer.amount;
    });
  }
  std::int64_t look(const Transfer &transfer) override {
    const std::uint64_t records[] = {layout_.account(transfer.account),
                                     layout_.teller(transfer.teller), transfer.branch};
    std::int64_t sum = 0;
    if (!is_of_lines_) {
      atomically(site_, [&] {
        sum = 0;
        for (const std::uint64_t record : records) sum += *layout_.balance(record);
      });
      return sum;
    }
    atomically(site_, [&](Fields) {
      sum = 0;
      for (const std::uint64_t record : records) sum += field_of(layout_.balance(record)).load();
    });
    return sum;
  }

  BankSums sums() override {
    BankSums sums;
    query(domain_, [&] { sums = layout_.sums(); });
    return sums;
  }
  HistoryRow row(unsigned process, std::uint64_t number) override {
    HistoryRow row{};
    query(domain_, [&] { row = *layout_.history(layout_.row(process, number)); });
    return row;
  }
  std::uint64_t retries() const override {
    const SiteReport report = site_.report();
    return report.line_aborts + report.page_aborts;
  }
  std::uint64_t log_bytes() override {
    return process_ == 0 && durability_ != Durability::kNone ? logged(domain_, durability_).bytes
                                                             : 0;
  }

 private:
  template <class T>
  [[nodiscard]] static field<T> &field_of(T *value) noexcept {
    static_assert(sizeof(field<T>) == sizeof(T));
    return *reinterpret_cast<field<T> *>(value);
  }
  [[nodiscard]] static Domain open(const std::string &folder, Durability durability,
                                   Instances instances) {
    Mode mode;
    mode.durability = durability;
    mode.levels = instances == Instances::kLines ? Levels::kHybrid : Levels::kPage;
    mode.detection = instances == Instances::kEager     ? Detection::kEager
                     : instances == Instances::kLocking ? Detection::kLocking
                                                        : Detection::kLazy;
    if (instances == Instances::kSnapshot) mode.isolation = Isolation::kSnapshot;
    return open_domain(mode, folder);
  }
  [[nodiscard]] static SegmentOptions shape(const BankScale &scale) {
    SegmentOptions raw;
    raw.layout = Layout::kRaw;
    raw.size_bytes = BankLayout::bytes(scale);
    return raw;
  }

  const Durability durability_;
  const bool is_of_lines_;
  const unsigned process_;
  Domain domain_;
  Segment segment_;
  BankLayout layout_;
  Site site_;
};

}  // namespace

std::unique_ptr<BankSession> open_instances_bank(const std::string &folder, const BankScale &scale,
                                                 unsigned process, int durability,
                                                 Instances instances) {
  return std::make_unique<InstancesBank>(folder, scale, process, durability, instances);
}

}  // namespace tmh::bench
