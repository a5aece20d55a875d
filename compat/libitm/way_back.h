// compat/libitm/way_back.h -- where a begin returns to again, in code that g++ compiled without
// optimization.
// Why:       such code copies the result, looks whether it says kRestoreLive, restores variables,
//            and then looks for the other bits in the first register, through which it may have
//            restored them: an abort is not seen, or the wrong code runs.
// Shape:     the instructions that restore are copied to memory of this library, and behind them
//            the result is loaded once more; then the code goes on behind its own. They move words
//            between slots of the function's frame, and mean the same at any address.
// Contexts:  any thread, outside of its transactions or about to leave one.
#pragma once

#include <cstdint>

namespace tmh::itm {

// Instead of next_instruction, for a begin that returns `result` there. Ends the process where
// there is no room left.
[[nodiscard]] std::uintptr_t way_back(std::uintptr_t next_instruction,
                                      std::uint32_t result) noexcept;

}  // namespace tmh::itm
