// examples/inverted_index/work_folder.h -- the domain's folder: temporary and removed at the end,
// or given and kept.
#pragma once

#include <string>

namespace inverted_index {

class WorkFolder {
 public:
  // Empty: a fresh folder in $TMPDIR, else /tmp. Otherwise `given`, which must be missing or empty.
  // Throws BadInput with one sentence.
  explicit WorkFolder(const std::string &given);
  WorkFolder(const WorkFolder &) = delete;
  WorkFolder &operator=(const WorkFolder &) = delete;
  ~WorkFolder();

  [[nodiscard]] const std::string &path() const noexcept { return path_; }
  // Where it lies: what "durable" can mean there. E.g. "ext4".
  [[nodiscard]] std::string file_system() const;
  [[nodiscard]] bool temporary() const noexcept { return temporary_; }

 private:
  std::string path_;
  bool temporary_;
};

}  // namespace inverted_index
