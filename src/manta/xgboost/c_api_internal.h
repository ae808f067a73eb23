#pragma once

#include <cstdint>

/// The functions of libxgboost.so (3.2) that Manta calls; its wheel has no headers. All but the
/// first return 0, or -1 with the reason in XGBGetLastError, which is kept for each thread. Texts
/// whose names are `config` or end in `_interface` are JSON. Memory that a function returns by a
/// pointer belongs to the library, and is valid until the next call on the same handle from the
/// same thread.
extern "C" {

const char* XGBGetLastError();
int XGBRegisterLogCallback(void (*callback)(const char*));  // for the calling thread

int XGDMatrixCreateFromDense(const char* array_interface, const char* config, void** matrix);
int XGDMatrixFree(void* matrix);
int XGDMatrixSetInfoFromInterface(void* matrix, const char* field, const char* array_interface);
int XGProxyDMatrixCreate(void** proxy);
int XGProxyDMatrixSetDataDense(void* proxy, const char* array_interface);
int XGQuantileDMatrixCreateFromCallback(void* iterator, void* proxy, void* reference,
                                        void (*reset)(void*), int (*next)(void*),
                                        const char* config, void** matrix);

int XGBoosterCreate(void* const* cached_matrices, uint64_t size, void** booster);
int XGBoosterFree(void* booster);
int XGBoosterSetParam(void* booster, const char* name, const char* value);
int XGBoosterUpdateOneIter(void* booster, int iteration, void* matrix);
int XGBoosterEvalOneIter(void* booster, int iteration, void* const* matrices,
                         const char* const* names, uint64_t size, const char** result);
int XGBoosterBoostedRounds(void* booster, int* rounds);
int XGBoosterSaveJsonConfig(void* booster, uint64_t* size, const char** text);
int XGBoosterLoadJsonConfig(void* booster, const char* text);
int XGBoosterSaveModelToBuffer(void* booster, const char* config, uint64_t* size,
                               const char** bytes);
int XGBoosterLoadModelFromBuffer(void* booster, const void* bytes, uint64_t size);
int XGBoosterSetAttr(void* booster, const char* key, const char* value);
int XGBoosterGetAttr(void* booster, const char* key, const char** value, int* found);
int XGBoosterSetStrFeatureInfo(void* booster, const char* field, const char* const* values,
                               uint64_t size);
int XGBoosterGetStrFeatureInfo(void* booster, const char* field, uint64_t* size,
                               const char*** values);
int XGBoosterPredictFromDense(void* booster, const char* array_interface, const char* config,
                              void* proxy, const uint64_t** shape, uint64_t* dimensions,
                              const float** result);

int XGTrackerCreate(const char* config, void** tracker);
int XGTrackerWorkerArgs(void* tracker, const char** config);
int XGTrackerRun(void* tracker, const char* config);
int XGTrackerWaitFor(void* tracker, const char* config);
int XGTrackerFree(void* tracker);
int XGCommunicatorInit(const char* config);
int XGCommunicatorFinalize();
int XGCommunicatorGetRank();

}  // extern "C"
