#pragma once

namespace oncebox {

/// What to do with a message whose topic nobody here handles.
enum class NoHandlerPolicy {
  abandon,  ///< warn and try again later: another version of the program may handle it
  fail,     ///< dead at once
  ignore,   ///< never claim it, and leave it to other processes
};

}  // namespace oncebox
