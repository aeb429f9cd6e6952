#pragma once

/// CLI11 takes five seconds to compile: only the files that add options include it.
namespace CLI {
class App;
}  // namespace CLI
