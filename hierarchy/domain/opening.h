// hierarchy/domain/opening.h -- opening a domain in this process, and closing it.
// Shape:     a registry finds the domain of a folder that this process has open already. A refused
//            open leaves the folder as it was.
// Sharing:   threads: the registry's mutex is held while a domain is opened.
// Contexts:  NOT async-signal-safe.
#pragma once

#include <memory>
#include <string>

#include <tmh/domain.hpp>

#include "platform/files.h"

namespace tmh::detail {

class DomainImpl;

class Opening {
 public:
  [[nodiscard]] static Errc open(const std::string &folder, const DomainOptions &options,
                                 std::shared_ptr<DomainImpl> *out);
  // See tmh::Domain::close(). It stays open where its folder cannot be locked.
  [[nodiscard]] static Errc close(DomainImpl &domain) noexcept;
  // Without opening: see tmh::recover().
  [[nodiscard]] static Errc recover(const std::string &folder, const RecoverOptions &options,
                                    RecoveryInfo *info);

 private:
  explicit Opening(DomainImpl &domain) noexcept : domain_(domain) {}

  // The last handle goes: closes the domain.
  static void destroy(DomainImpl *domain) noexcept;

  [[nodiscard]] static Errc share(DomainImpl &domain, const DomainOptions &options);
  // After recovery.
  [[nodiscard]] static Errc use_page_checksums(const platform::FolderLock::Held &lock,
                                               DomainImpl &domain, PageChecksums wanted,
                                               const DomainOptions &options);
  [[nodiscard]] static Errc sync_data_files(DomainImpl &domain, bool is_last) noexcept;
  [[nodiscard]] Errc attach();
  [[nodiscard]] Errc attach_locked(const platform::FolderLock::Held &lock);
  [[nodiscard]] Errc take_key();
  [[nodiscard]] Errc settle();
  [[nodiscard]] Errc store_settings(const platform::FolderLock::Held &lock);
  [[nodiscard]] Errc open_durable(const platform::FolderLock::Held &lock);
  void make_engine();
  // REQUIRE the participant's slot.
  [[nodiscard]] Errc open_latency(const platform::FolderLock::Held &lock);
  [[nodiscard]] Errc open_page_locks(const platform::FolderLock::Held &lock);
  [[nodiscard]] Errc open_lines(const platform::FolderLock::Held &lock);
  [[nodiscard]] Errc start_durable();
  void tell_views() noexcept;
  void hold_history() noexcept;
  void remove_made(const platform::FolderLock::Held &lock, bool was_closed);

  DomainImpl &domain_;
  // No process has the domain open.
  bool fresh_ = false;
};

}  // namespace tmh::detail
