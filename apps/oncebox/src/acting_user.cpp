#include "acting_user.hpp"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <vector>

namespace oncebox::app {

std::string acting_user() {
  constexpr std::size_t kEntryBytes = 16'384;
  const uid_t user = geteuid();
  std::vector<char> texts(kEntryBytes);
  passwd entry{};
  passwd* found = nullptr;
  const bool read = getpwuid_r(user, &entry, texts.data(), texts.size(), &found) == 0;
  if (!read || found == nullptr || found->pw_name[0] == '\0') return fmt::format("uid {}", user);
  return found->pw_name;
}

}  // namespace oncebox::app
