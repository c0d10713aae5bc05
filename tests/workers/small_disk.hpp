#pragma once

#include <cstddef>
#include <string>

namespace oncebox::workers {

/// Mounts a disk of this size, in memory, on a folder. This process and its children alone see it,
/// and it is gone with them. Needs root, or a kernel that lets users have namespaces of their own;
/// throws, saying so, when it has neither. To be called before there are threads.
void mount_small_disk(const std::string& folder, std::size_t bytes);

/// Writes a file of this size, or until the disk is full.
void write_file(const std::string& path, std::size_t bytes);

}  // namespace oncebox::workers
