#pragma once

#include <cstddef>
#include <fstream>

namespace oncebox::server {

// A sanitizer needs memory of its own, and keeps what is freed.
#ifdef __has_feature
inline constexpr bool kIsSanitized =
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

/// How much of this process is in memory.
[[nodiscard]] inline std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  file >> total >> resident;
  return resident * 4096;
}

}  // namespace oncebox::server
