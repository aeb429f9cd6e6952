#pragma once

#include <filesystem>
#include <string>

namespace teller::cluster {

/// True for a folder below /sys/fs/cgroup with a component that begins with 'teller-'.
bool IsOwnCgroup(const std::filesystem::path& path);

/// Moves every process of the cgroup (and of the cgroups below) to its parent and removes it.
/// @return empty, or why it could not be removed
std::string RemoveCgroup(const std::filesystem::path& path);

}  // namespace teller::cluster
