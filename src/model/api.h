/* What libteller_model.so offers to a program that does not link torch: two functions over files,
 * opened with dlopen. Requests are JSON, described in docs/schema/model_request.md. A return value
 * is an exit code (docs/design.md, section 12); on failure `error` holds one line. Exceptions never
 * cross this border. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define TELLER_MODEL_API_VERSION 1

#ifdef __cplusplus
extern "C" {
#endif

/* Called from the training thread; answering 0 asks for a clean stop (checkpoint kept). */
typedef int (*TellerModelProgress)(void* context, int64_t done, int64_t total, const char* note);

typedef int (*TellerModelCall)(const char* request_json, TellerModelProgress progress,
                               void* context, char* error, size_t error_bytes);

int teller_model_api_version(void);
/* {"train":[tokens.h5...],"validation":[...],"output":DIR,"seed":N,"config":{...}} ->
 * DIR/{model.json,weights.pt} */
int teller_model_train(const char* request_json, TellerModelProgress progress, void* context,
                       char* error, size_t error_bytes);
/* {"model":DIR,"tokens":[tokens.h5...],"output":predictions.h5} */
int teller_model_predict(const char* request_json, TellerModelProgress progress, void* context,
                         char* error, size_t error_bytes);

#ifdef __cplusplus
}
#endif
