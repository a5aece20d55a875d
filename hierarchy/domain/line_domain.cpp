// hierarchy/domain/line_domain.cpp -- opening and closing level 1, and its segments.
#include "hierarchy/domain/line_domain.h"

#include <cstring>

#include "platform/assert.h"
#include "platform/try.h"

namespace tmh::detail {

LineDomain::LineDomain(page::SharedFiles &memory, std::uint32_t slot, CrossPolicy cross,
                       bool with_hardware)
    : memory_(memory),
      directory_(memory, lines_, slot),
      requests_(memory, directory_, cross),
      threads_(memory, lines_, slot, requests_) {
  if (!with_hardware) return;
  hardware_ = std::make_unique<hierarchy::HardwareLines>(memory, directory_.hardware());
  given_ = std::make_unique<GivenPages>(memory, directory_, *hardware_);
  requests_.use_hardware(hardware_.get());
}

Errc LineDomain::open(const platform::FolderLock::Held &lock, const std::string &folder) noexcept {
  TMH_ASSERT(lock.is_valid());
  bool found = false;
  TMH_TRY(lines_.open(folder, &found));
  const storage::ControlHeaderV1 &header = memory_.control().header;
  std::memcpy(lines_.state().domain_id, header.domain_id, sizeof lines_.state().domain_id);
  lines_.state().life = storage::life_of(header);
  TMH_TRY(lines_.enter(memory_.state().files));
  if (hardware_ != nullptr) hardware_->open();
  TMH_TRY(directory_.open(folder));
  const platform::GrowingFile &moves = directory_.hardware().file();
  return memory_.in_place().enter(storage::DomainFile::kHardware, moves.fd(),
                                  hierarchy::HardwarePages::kFileBytes);
}

void LineDomain::use_engine(page::Engine *engine) noexcept {
  engine_ = engine;
  requests_.use_engine(engine);
  threads_.use_engine(engine);
}

void LineDomain::use_log(page::DurableLog *log, platform::Doorbell *housekeeper) {
  TMH_ASSERT(log != nullptr && line_log_ == nullptr);
  line_log_ = std::make_unique<LineLog>(memory_, lines_, *log, &requests_, housekeeper);
  log->use_gatherer(line_log_.get());
  requests_.use_log(log);
  threads_.use_log(line_log_.get());
}

void LineDomain::leave_log() noexcept {
  if (line_log_ != nullptr) line_log_->forget_releaser();
  use_engine(nullptr);
}

Errc LineDomain::add_segment(std::uint32_t number, std::byte *view,
                             std::uint64_t max_bytes) noexcept {
  TMH_ASSERT(number < storage::kSegmentsMax && view != nullptr);
  // All of the reserve is usable: beyond the segment's size loads and stores meet SIGBUS, as plain
  // ones do.
  TMH_TRY(directory_.open_segment(number, max_bytes));
  TMH_TRY(
      lines_.add_segment({number, view, max_bytes, max_bytes, &memory_.segment(number).home,
                          &directory_.records_file(number), hierarchy::Directory::kRecordBytes}));
  if (const Errc error = lines_.enter(memory_.state().files, number); error != Errc::kOk) {
    forget_lines(number);
    return error;
  }
  if (hardware_ == nullptr) return Errc::kOk;
  const Errc error = hardware_->add_segment(number, view, max_bytes);
  if (error != Errc::kOk) forget_lines(number);
  return error;
}

void LineDomain::forget_lines(std::uint32_t number) noexcept {
  TMH_ASSERT(engine_ != nullptr);
  // Another thread may be recovering a dead one's lines there.
  const page::DomainLock::Held held = engine_->lock_domain();
  lines_.remove_segment(number);
}

void LineDomain::remove_segment(std::uint32_t number) noexcept {
  if (given_ != nullptr) given_->forget(number);
  if (hardware_ != nullptr) hardware_->remove_segment(number);
  forget_lines(number);
}

bool LineDomain::is_settled() const noexcept {
  for (std::uint32_t i = 0; i < lines_.contexts_high(); ++i) {
    // acquire: pairs with recovery and give_back()
    if (lines_.context(i).owner.load(std::memory_order_acquire) != line::Owner{}) return false;
  }
  return true;
}

LineDomain::Given LineDomain::give_to_hardware() noexcept {
  TMH_ASSERT(given_ != nullptr && engine_ != nullptr);
  return given_->give(*engine_);
}

void LineDomain::give_again() noexcept {
  TMH_ASSERT(given_ != nullptr && engine_ != nullptr);
  given_->give_again(*engine_);
}

void LineDomain::close() noexcept {
  TMH_ASSERT(engine_ == nullptr);
  requests_.use_hardware(nullptr);
  given_.reset();
  hardware_.reset();
  lines_.close(false);
}

void LineDomain::count_in(Counters *out) noexcept {
  lines_.count_in(out);
  directory_.hardware().count_in(out);
}

}  // namespace tmh::detail
