// tests/db/private_look.h -- the files of groups.h that a program alone can open, as it finds them.
// Contexts:  no environment of theirs is open in the process.
#pragma once

#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <exception>
#include <string>

#include "tests/db/groups.h"
#include "tests/support/temp_folder.h"

namespace tmh::test::groups {

class PrivateLook {
 public:
  explicit PrivateLook(const std::string &folder) {
    for (std::size_t i = 0; i < kFiles; ++i) look(folder, static_cast<File>(i));
  }
  [[nodiscard]] const std::string &wrong() const { return wrong_; }
  [[nodiscard]] bool has(File file) const { return is_there_[static_cast<std::size_t>(file)]; }
  // Empty: they have what is in `state`.
  [[nodiscard]] std::string compare(State &state) {
    for (std::size_t i = 0; i < kFiles; ++i) {
      const auto file = static_cast<File>(i);
      if (!is_there_[i]) continue;
      if (found_.list(file) != state.list(file) && (file == File::kNumbers || file == File::kText))
        return std::string(kNames[i]) + ": alone it has other records";
      if (found_.of(file) != state.of(file))
        return std::string(kNames[i]) + ": alone, " + difference(found_.of(file), state.of(file));
    }
    return "";
  }

 private:
  // A text does not say that there is something newer.
  void look(const std::string &folder, File file) {
    struct stat info {};
    if (::stat(Files::path(folder, file).c_str(), &info) != 0 || info.st_size == 0) return;
    if (file == File::kText) return;
    DB *const db = Files::open(folder, file, O_RDONLY, 0);
    if (db == nullptr) {
      // One whose first page was not durable is empty.
      const std::string bytes = read_file(Files::path(folder, file));
      const bool is_blank = bytes.find_first_not_of('\0') == std::string::npos;
      if (errno != EBUSY && !is_blank) wrong_ = Files::failed("alone: open of ", file);
      return;
    }
    try {
      Files::read(db, file, &found_);
      is_there_[static_cast<std::size_t>(file)] = true;
    } catch (const std::exception &error) {
      wrong_ = std::string("alone: ") + error.what();
    }
    if (db->close(db) != 0) wrong_ = Files::failed("alone: close of ", file);
  }

  State found_;
  std::array<bool, kFiles> is_there_{};
  std::string wrong_;
};

}  // namespace tmh::test::groups
