#pragma once

#include <cstdio>
#include <string>

namespace teller::serve {

/// Names the lines' process as vLLM does, for example 'Worker_TP1'. Call once, at start.
void NameServiceLog(const std::string& process);

/// A line of the service's log on stdout, laid out as vLLM lays out its own:
/// '(NAME pid=7) INFO 12-01 12:00:00 [engine.cc:123] TEXT'. Written at once and whole.
void LogService(const char* file, int line, const char* level, const std::string& text);

/// A line as uvicorn writes it: 'INFO:     TEXT'.
void LogHttp(const std::string& text);

}  // namespace teller::serve

#define SERVICE_INFO(text) ::teller::serve::LogService(__FILE__, __LINE__, "INFO", text)
