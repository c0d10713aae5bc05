#pragma once

#include <string>

namespace oncebox::crash {

/// The file is sound and its tables agree with each other.
void expect_sound(const std::string& database);

}  // namespace oncebox::crash
