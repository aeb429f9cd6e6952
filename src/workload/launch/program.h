#pragma once

#include <filesystem>
#include <string>

namespace teller::launch {

/// The full path of a program of ours: beside the running program, else in ../bin of its folder,
/// else in PATH. Throws UnavailableError.
std::filesystem::path FindProgram(const std::string& name);

}  // namespace teller::launch
