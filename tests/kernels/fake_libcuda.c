/* A CUDA driver that does not exist: no device, no memory, no kernel that runs. Triton's own runtime loads it in the
 * place of libcuda.so.1 and hands it everything that it would hand to a card, and it refuses what a card of compute
 * capability 9.0 would refuse by the rules of the CUDA Driver API's documentation (tensor maps, launch limits).
 */
#include "cuda.h"
#include <stdio.h>
#include <string.h>

enum { SHARED_BYTES = 232448, THREADS = 1024 };
static long launches, tensor_maps, dependent;
static char refusal[256] = "refused by a driver that does not exist";

long fake_launches(void) { return launches; }
long fake_tensor_maps(void) { return tensor_maps; }
long fake_dependent_launches(void) { return dependent; }

static CUresult refuse(const char *what, unsigned long long value) {
  snprintf(refusal, sizeof refusal, "%s: %llu", what, value);
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char **text) { *text = refusal; return CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int *version) { *version = 13000; return CUDA_SUCCESS; }
CUresult cuDeviceGet(CUdevice *device, int ordinal) { *device = ordinal; return CUDA_SUCCESS; }
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) { *context = (CUcontext)1; return CUDA_SUCCESS; }
CUresult cuCtxSetCurrent(CUcontext context) { return CUDA_SUCCESS; }
CUresult cuCtxGetCurrent(CUcontext *context) { *context = (CUcontext)1; return CUDA_SUCCESS; }
CUresult cuCtxSetLimit(CUlimit limit, size_t value) { return CUDA_SUCCESS; }
CUresult cuCtxGetLimit(size_t *value, CUlimit limit) { *value = 0; return CUDA_SUCCESS; }
CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config) { return CUDA_SUCCESS; }
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) { *function = (CUfunction)1; return CUDA_SUCCESS; }
CUresult cuOccupancyMaxActiveClusters(int *count, CUfunction function, const CUlaunchConfig *config) { *count = 1; return CUDA_SUCCESS; }

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  *module = (CUmodule)1;
  return memcmp(image, "\177ELF", 4) ? refuse("the code is no cubin", 0) : CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  switch (attribute) {
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = SHARED_BYTES; break;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: *value = SHARED_BYTES + 1024; break;
  case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 132; break;
  case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK: *value = 65536; break;
  case CU_DEVICE_ATTRIBUTE_WARP_SIZE: *value = 32; break;
  default: *value = 1;
  }
  return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function) {
  *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? THREADS : 0;
  return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  return value > SHARED_BYTES ? refuse("shared memory of a function", value) : CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr pointer) {
  *(CUdeviceptr *)data = pointer; /* every address is one of the device's */
  return CUDA_SUCCESS;
}

static int element_bytes(CUtensorMapDataType type) {
  switch (type) {
  case CU_TENSOR_MAP_DATA_TYPE_UINT8: return 1;
  case CU_TENSOR_MAP_DATA_TYPE_UINT16:
  case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
  case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16: return 2;
  default: return 4;
  }
}

CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
                                const cuuint64_t *dim, const cuuint64_t *stride, const cuuint32_t *box,
                                const cuuint32_t *step, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  tensor_maps++;
  if (rank < 1 || rank > 5) return refuse("rank of a tensor map", rank);
  if ((size_t)address % 16) return refuse("address of a tensor map, not in 16 bytes", (size_t)address);
  for (cuuint32_t i = 0; i < rank; i++) {
    if (dim[i] < 1 || dim[i] > 1ULL << 32) return refuse("extent of a tensor map", dim[i]);
    if (box[i] < 1 || box[i] > 256) return refuse("box of a tensor map", box[i]);
    if (step[i] < 1 || step[i] > 8) return refuse("element stride of a tensor map", step[i]);
    if (i + 1 < rank && (stride[i] % 16 || stride[i] >= 1ULL << 40)) return refuse("stride of a tensor map", stride[i]);
    /* cuda.h: each stride is the one before it times a dimension and its padding */
    unsigned long long before = i ? stride[i - 1] : element_bytes(type);
    if (i + 1 < rank && (stride[i] % before || stride[i] / before < dim[i])) return refuse("stride of a tensor map, not the one before times its extent", stride[i]);
  }
  unsigned inner = box[0] * element_bytes(type);
  unsigned widest = swizzle == CU_TENSOR_MAP_SWIZZLE_32B ? 32 : swizzle == CU_TENSOR_MAP_SWIZZLE_64B ? 64 : 128;
  if (inner % 16) return refuse("inner bytes of a tensor map's box, not in 16", inner);
  if (swizzle != CU_TENSOR_MAP_SWIZZLE_NONE && inner > widest) return refuse("inner bytes past the swizzle", inner);
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra) {
  launches++;
  if (config->gridDimX < 1 || config->gridDimX > 2147483647u) return refuse("grid x", config->gridDimX);
  if (config->gridDimY < 1 || config->gridDimY > 65535) return refuse("grid y", config->gridDimY);
  if (config->gridDimZ < 1 || config->gridDimZ > 65535) return refuse("grid z", config->gridDimZ);
  if (config->blockDimX * config->blockDimY * config->blockDimZ > THREADS) return refuse("threads", config->blockDimX);
  if (config->sharedMemBytes > SHARED_BYTES) return refuse("shared memory of a launch", config->sharedMemBytes);
  for (unsigned i = 0; i < config->numAttrs; i++)
    dependent += config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  return CUDA_SUCCESS;
}
