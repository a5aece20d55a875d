// levels/page/shared/found_files.h -- what a participant finds in the folder, looked at in one
// place before it opens, makes or removes any file that participants share.
// Why:       two processes that have two files of one name open do not see each other's commits;
//            and what only shared memory has is lost when it is made anew.
// Shape:     tmh.state says which files the participants have, or had, open
//            (storage/file_table.h). tmh.control says that there is such a file, of this boot.
//            Participants hold the control file and their table (platform::FileHold), so that they
//            are found when tmh.state is gone.
// Errors:    kFileReplaced: a file is not the one that it was, and processes have the domain open,
//            or have died in it and what they committed may be lost. kDomainInUse: processes use
//            another domain that was here, or use this one from another machine. kForeignVersion,
//            kIo.
// Sharing:   under the folder lock.
// Contexts:  NOT async-signal-safe.
#pragma once

#include <cstdint>
#include <string>

#include <tmh/error.hpp>

#include "storage/control.h"
#include "storage/file_table.h"

namespace tmh::page {

class FoundFiles {
 public:
  explicit FoundFiles(const std::string &folder) noexcept : folder_(folder) {}

  enum class State : std::uint8_t {
    // There is none, or none that anybody needs: shared memory is made anew.
    kNone,
    // tmh.state is of this life of the domain.
    kOurs
  };
  // control: as tmh.control is, which `control_fd` has open.
  [[nodiscard]] Errc look(const storage::ControlFile &control, int control_fd) noexcept;
  // There is no control file. Refused where processes use the domain, or have died in it.
  [[nodiscard]] Errc look_without_control() noexcept;
  [[nodiscard]] State state() const noexcept { return state_; }
  // Nothing is the file that it was: the folder is a copy.
  [[nodiscard]] bool is_copy() const noexcept { return is_copy_; }

  // Is all of the shared memory of this life there?
  [[nodiscard]] Errc look_for_shared(const storage::ControlFile &control, bool *is_whole) noexcept;

  // Does a process hold the control file or the table of participants? REQUIRES: not this one.
  [[nodiscard]] static Errc look_for_holder(const std::string &folder, bool *is_held) noexcept;

 private:
  enum class Identity : std::uint8_t { kUnknown, kOurs, kAnothers };
  [[nodiscard]] Errc identify(const storage::ControlFile *control, bool is_marked,
                              Identity *out) const noexcept;
  [[nodiscard]] Errc look_at_files(const storage::ControlFile &control) noexcept;
  [[nodiscard]] Errc refuse_users(Errc code, const std::string &why) const noexcept;
  [[nodiscard]] Errc settle(const storage::ControlFile &control, const std::string &what,
                            bool is_durable_file) noexcept;
  [[nodiscard]] std::string path(storage::DomainFile file) const;

  const std::string &folder_;
  State state_ = State::kNone;
  bool is_copy_ = false;
};

}  // namespace tmh::page
