#pragma once

namespace teller::diagnose {

/// The report page's frame; '<!--css-->', '<!--js-->' and '<!--data-->' stand for its parts.
extern const char* const kPageHtml;
extern const char* const kPageCss;
extern const char* const kPageJs;

}  // namespace teller::diagnose
