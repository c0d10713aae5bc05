#pragma once

#include <string_view>

#include "oncebox/internal/descriptor.hpp"

namespace oncebox::app {

struct Pipe {
  detail::Descriptor reading;
  detail::Descriptor writing;
};

/// No program that we execute inherits it. Throws `unavailable`.
[[nodiscard]] Pipe make_pipe();

/// The highest number of a file that a new process gets; see `ChildRequest`.
inline constexpr int kHighestOfChild = 4;

/// The file under a number above those of a new process, one of which it may have when we were
/// started without them. Throws `unavailable`.
[[nodiscard]] detail::Descriptor moved_up(int descriptor);

/// Throws `unavailable`: what failed, and the text for `error`.
[[noreturn]] void refuse_start(std::string_view what, int error);

}  // namespace oncebox::app
