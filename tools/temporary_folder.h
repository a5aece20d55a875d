// tools/temporary_folder.h -- a new folder where the environment wants temporary files.
#pragma once

#include <string>

namespace tmh::tools {

// Named prefix and six letters, in TMPDIR (then TMP, TEMP, TEMPDIR; /tmp). Throws Error(kIo) that
// names the variable when the folder it names will not do.
[[nodiscard]] std::string make_temporary_folder(const std::string &prefix);

}  // namespace tmh::tools
