// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/kfd without a GPU: memory of processes by its handles, as the render nodes of render.c have it,
 * and the ioctl for checkpoints with the kernel's order of calls. No queue, no event. A process's
 * memory ends with its last descriptor of it; with the real one, with the process.
 *
 * It loads into a guest that is made for a test, and nowhere else: it checks no more than that asks.
 */
#include <drm/drm_device.h>
#include <drm/drm_file.h>
#include <drm/drm_gem_shmem_helper.h>
#include <drm/drm_prime.h>
#include <linux/device.h>
#include <linux/dma-buf.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/idr.h>
#include <linux/kref.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/ptrace.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <uapi/linux/kfd_ioctl.h>

#include "render.h"

#define GPUS 2
#define FIRST_RENDER 128
#define FIRST_ID 2000 /* of GPU 0, in the topology */
#define MOST_BYTES (1 << 20)
#define MMIO_OFFSET(gpu_id) (1ULL << 62 | (u64)(gpu_id) << 46)

/* Not in the headers of this kernel. */
#define NR_EXPORT_DMABUF 0x24
struct export_dmabuf {
	__u64 handle;
	__u32 flags, dmabuf_fd;
};

/* The private data of checkpoints, version 1. */
struct process_priv {
	u32 version, xnack_mode;
};
struct bo_priv {
	u64 user_addr;
	u32 index;
	u32 mapped[64];
};

struct bo {
	struct drm_gem_object *object; /* NULL: registers */
	struct dma_buf *dmabuf; /* once it was exported, or imported: the buffer's own as long as it lives */
	u64 va, size;
	u32 gpu, flags, mapped;
};

struct process {
	struct kref kref;
	struct list_head list;
	struct task_struct *lead;
	struct mutex lock;
	bool paused, restored; /* restored, and not yet resumed */
	u32 id[GPUS];	       /* as the process calls them */
	struct file *render[GPUS];
	struct idr bos[GPUS];
};

static bool resumes = true;
module_param(resumes, bool, 0644);
MODULE_PARM_DESC(resumes, "who was restored goes on");

static bool lasting = true;
module_param(lasting, bool, 0644);
MODULE_PARM_DESC(lasting, "CHECKPOINT tells the dma-buf that there is, which Linux 6.1 does not");

static LIST_HEAD(processes);
static DEFINE_MUTEX(processes_lock);

/* --- Memory --------------------------------------------------------------------------------- */

static struct drm_file *drm_of(struct process *p, u32 gpu)
{
	return p->render[gpu] ? p->render[gpu]->private_data : NULL;
}

static int gpu_of(struct process *p, u32 gpu_id)
{
	for (int i = 0; i < GPUS; i++)
		if (p->id[i] == gpu_id)
			return i;
	return -EINVAL;
}

static int acquire(struct process *p, u32 gpu, int fd)
{
	struct file *file = fget(fd);
	struct drm_file *drm = file ? file->private_data : NULL;

	if (!file || imajor(file_inode(file)) != DRM_MAJOR || p->render[gpu] ||
	    drm->minor->index != FIRST_RENDER + gpu) {
		if (file)
			fput(file);
		return -EINVAL;
	}
	p->render[gpu] = file;
	return 0;
}

static u64 bo_offset(struct process *p, const struct bo *bo)
{
	return bo->object ? drm_vma_node_offset_addr(&bo->object->vma_node)
			  : MMIO_OFFSET(p->id[bo->gpu]);
}

static void bo_free(struct process *p, struct bo *bo)
{
	struct drm_gem_object *object = bo->object;

	if (object) {
		atomic_sub(hweight32(bo->mapped & ~(1u << bo->gpu)), &to_buffer(object)->peers);
		drm_vma_node_revoke(&object->vma_node, drm_of(p, bo->gpu));
		if (bo->dmabuf)
			dma_buf_put(bo->dmabuf);
		drm_gem_object_put(object);
	}
	kfree(bo);
}

/* The object is the buffer's from here on. The handle's lower half; -1: any. */
static int bo_add(struct process *p, const struct bo *is, int index)
{
	struct bo *bo = kmemdup(is, sizeof(*is), GFP_KERNEL);
	int r = bo ? 0 : -ENOMEM;

	if (!r && is->object)
		r = drm_gem_create_mmap_offset(is->object);
	if (!r && is->object)
		r = drm_vma_node_allow(&is->object->vma_node, drm_of(p, is->gpu));
	if (!r)
		r = idr_alloc(&p->bos[is->gpu], bo, index < 0 ? 0 : index, index < 0 ? 0 : index + 1,
			      GFP_KERNEL);
	if (r < 0) {
		if (is->dmabuf)
			dma_buf_put(is->dmabuf);
		if (is->object)
			drm_gem_object_put(is->object);
		kfree(bo);
	}
	return r;
}

static int bo_make(struct process *p, struct bo *bo, int index)
{
	struct drm_file *drm = drm_of(p, bo->gpu);
	struct drm_gem_shmem_object *shmem;

	if (!drm || !bo->size)
		return -EINVAL;
	if (bo->flags & (KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_GTT)) {
		shmem = drm_gem_shmem_create(drm->minor->dev, bo->size);
		if (IS_ERR(shmem))
			return PTR_ERR(shmem);
		bo->object = &shmem->base;
	}
	return bo_add(p, bo, index);
}

static struct bo *bo_find(struct process *p, u64 handle)
{
	int gpu = gpu_of(p, handle >> 32);

	return gpu < 0 ? NULL : idr_find(&p->bos[gpu], (u32)handle);
}

/*
 * One dma-buf for an object, whoever exports it, as DRM has it for handles. The kernel's KFD keeps it in
 * its own record of the buffer, and in a file of its own a handle, without which DRM forgets the
 * dma-buf when a process closes the last other handle.
 */
static int bo_export(struct bo *bo, u32 flags)
{
	struct dma_buf *buf = bo->dmabuf;
	int fd;

	if (!buf)
		buf = bo->object->funcs->export(bo->object, O_RDWR | O_CLOEXEC);
	if (IS_ERR(buf))
		return PTR_ERR(buf);
	bo->dmabuf = buf;
	get_dma_buf(buf);
	fd = dma_buf_fd(buf, flags);
	if (fd < 0)
		dma_buf_put(buf);
	return fd;
}

/* For a checkpoint. */
static int bo_export_for_criu(struct bo *bo)
{
	struct dma_buf *is = bo->dmabuf;
	int fd;

	if (!lasting)
		bo->dmabuf = NULL;
	fd = bo_export(bo, O_RDWR | O_CLOEXEC);
	if (!lasting) {
		if (bo->dmabuf)
			dma_buf_put(bo->dmabuf);
		bo->dmabuf = is;
	}
	return fd;
}

static int memory_import(struct process *p, struct kfd_ioctl_import_dmabuf_args *a)
{
	int gpu = gpu_of(p, a->gpu_id), r;
	struct drm_file *drm = gpu < 0 ? NULL : drm_of(p, gpu);
	struct bo bo = {.va = a->va_addr, .gpu = gpu,
			.flags = KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE |
				 KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE};
	struct dma_buf *buf;

	if (!drm)
		return -EINVAL;
	buf = dma_buf_get(a->dmabuf_fd);
	if (IS_ERR(buf))
		return PTR_ERR(buf);
	bo.object = drm_gem_prime_import(drm->minor->dev, buf);
	if (IS_ERR(bo.object)) {
		dma_buf_put(buf);
		return PTR_ERR(bo.object);
	}
	if (bo.object->import_attach) { /* another device's */
		drm_gem_object_put(bo.object);
		dma_buf_put(buf);
		return -EINVAL;
	}
	bo.dmabuf = buf;
	bo.size = bo.object->size;
	r = bo_add(p, &bo, -1);
	if (r >= 0)
		a->handle = (u64)a->gpu_id << 32 | r;
	return r < 0 ? r : 0;
}

static int memory_info(struct process *p, struct kfd_ioctl_get_dmabuf_info_args *a)
{
	struct dma_buf *buf = dma_buf_get(a->dmabuf_fd);
	struct drm_gem_object *object;
	int r = -EINVAL;

	if (IS_ERR(buf))
		return PTR_ERR(buf);
	for (int i = 0; i < GPUS && r; i++) {
		struct drm_file *drm = drm_of(p, i);

		object = drm ? drm_gem_prime_import(drm->minor->dev, buf) : ERR_PTR(-EINVAL);
		if (IS_ERR(object))
			continue;
		if (!object->import_attach) {
			a->size = object->size;
			a->gpu_id = p->id[i];
			a->flags = KFD_IOC_ALLOC_MEM_FLAGS_VRAM;
			a->metadata_size = 0;
			r = 0;
		}
		drm_gem_object_put(object);
	}
	dma_buf_put(buf);
	return r;
}

static int memory_alloc(struct process *p, struct kfd_ioctl_alloc_memory_of_gpu_args *a)
{
	struct bo bo = {.va = a->va_addr, .size = a->size, .flags = a->flags};
	int gpu = gpu_of(p, a->gpu_id), r;

	if (gpu < 0)
		return gpu;
	bo.gpu = gpu;
	r = bo_make(p, &bo, -1);
	if (r < 0)
		return r;
	a->handle = (u64)a->gpu_id << 32 | r;
	a->mmap_offset = bo_offset(p, &bo);
	return 0;
}

static int memory_free(struct process *p, u64 handle)
{
	struct bo *bo = bo_find(p, handle);

	if (!bo || bo->mapped)
		return bo ? -EBUSY : -EINVAL;
	idr_remove(&p->bos[bo->gpu], (u32)handle);
	bo_free(p, bo);
	return 0;
}

/* Into the address space of the file that the process has this GPU by. */
static int bo_map(struct process *p, struct bo *bo, int gpu)
{
	struct vm_entry entry = {.addr = bo->va, .size = bo->size};
	struct vm *vm;
	int r;

	if (gpu < 0 || !p->render[gpu] || bo->mapped >> gpu & 1)
		return gpu < 0 || !p->render[gpu] ? -EINVAL : 0;
	vm = drm_of(p, gpu)->driver_priv;
	mutex_lock(&vm->lock);
	r = vm_add(vm, NULL, &entry);
	mutex_unlock(&vm->lock);
	if (r)
		return r;
	bo->mapped |= 1 << gpu;
	if (bo->object && gpu != bo->gpu)
		atomic_inc(&to_buffer(bo->object)->peers);
	return 0;
}

static int memory_map(struct process *p, struct kfd_ioctl_map_memory_to_gpu_args *a)
{
	struct bo *bo = bo_find(p, a->handle);
	u32 __user *ids = u64_to_user_ptr(a->device_ids_array_ptr);
	u32 id;
	int r = bo ? 0 : -EINVAL;

	for (a->n_success = 0; !r && a->n_success < a->n_devices; a->n_success++) {
		if (get_user(id, &ids[a->n_success]))
			return -EFAULT;
		r = bo_map(p, bo, gpu_of(p, id));
	}
	return r;
}

/* --- Checkpoints ---------------------------------------------------------------------------- */

static void criu_count(struct process *p, struct kfd_ioctl_criu_args *a)
{
	struct bo *bo;
	int index;

	a->num_devices = GPUS;
	a->num_bos = a->num_objects = 0;
	for (int i = 0; i < GPUS; i++)
		idr_for_each_entry(&p->bos[i], bo, index)
			a->num_bos++;
	a->priv_data_size = sizeof(struct process_priv) + GPUS * sizeof(u64) +
			    a->num_bos * sizeof(struct bo_priv);
	a->pid = task_tgid_nr_ns(p->lead, task_active_pid_ns(p->lead));
}

static int criu_save_bo(struct process *p, const struct bo *bo, int index,
			struct kfd_criu_bo_bucket *bucket, struct bo_priv *priv)
{
	int n = 0;

	*bucket = (struct kfd_criu_bo_bucket){.addr = bo->va, .size = bo->size,
					      .offset = bo_offset(p, bo), .gpu_id = p->id[bo->gpu],
					      .alloc_flags = bo->flags, .dmabuf_fd = ~0u};
	priv->index = index;
	for (int i = 0; i < GPUS; i++)
		if (bo->mapped >> i & 1)
			priv->mapped[n++] = p->id[i];
	if (!bo->object)
		return 0;
	n = bo_export_for_criu((struct bo *)bo);
	bucket->dmabuf_fd = n;
	return n < 0 ? n : 0;
}

static int criu_checkpoint(struct process *p, struct kfd_ioctl_criu_args *a)
{
	struct kfd_criu_device_bucket devices[GPUS] = {};
	struct kfd_ioctl_criu_args is = {};
	struct kfd_criu_bo_bucket *buckets;
	struct process_priv *head;
	struct bo_priv *privs;
	int r = 0, n = 0, index;
	struct bo *bo;

	criu_count(p, &is);
	if (!p->paused || is.num_bos != a->num_bos || is.num_devices != a->num_devices ||
	    is.priv_data_size != a->priv_data_size)
		return -EINVAL;
	buckets = kcalloc(is.num_bos + 1, sizeof(*buckets), GFP_KERNEL);
	head = kzalloc(is.priv_data_size, GFP_KERNEL);
	if (!buckets || !head)
		r = -ENOMEM;
	for (int i = 0; i < GPUS && !r; i++) {
		devices[i].user_gpu_id = p->id[i];
		devices[i].actual_gpu_id = FIRST_ID + i;
		privs = (void *)((char *)(head + 1) + GPUS * sizeof(u64));
		head->version = 1;
		idr_for_each_entry(&p->bos[i], bo, index) {
			r = r ?: criu_save_bo(p, bo, index, &buckets[n], &privs[n]);
			n++;
		}
	}
	if (!r && (copy_to_user(u64_to_user_ptr(a->bos), buckets, n * sizeof(*buckets)) ||
		   copy_to_user(u64_to_user_ptr(a->devices), devices, sizeof(devices)) ||
		   copy_to_user(u64_to_user_ptr(a->priv_data), head, is.priv_data_size)))
		r = -EFAULT;
	kfree(buckets);
	kfree(head);
	return r;
}

static int criu_restore_bo(struct process *p, struct kfd_criu_bo_bucket *bucket,
			   const struct bo_priv *priv)
{
	int gpu = gpu_of(p, bucket->gpu_id), r;
	struct bo bo = {.va = bucket->addr, .size = bucket->size, .gpu = gpu,
			.flags = bucket->alloc_flags};

	if (gpu < 0)
		return gpu;
	r = bo_make(p, &bo, priv->index);
	for (int i = 0; r >= 0 && i < GPUS && priv->mapped[i]; i++)
		r = bo_map(p, idr_find(&p->bos[gpu], priv->index), gpu_of(p, priv->mapped[i]));
	if (r < 0)
		return r;
	bucket->restored_offset = bo_offset(p, &bo);
	bucket->dmabuf_fd = ~0u;
	if (!bo.object)
		return 0;
	r = bo_export_for_criu(idr_find(&p->bos[gpu], priv->index));
	bucket->dmabuf_fd = r;
	return r < 0 ? r : 0;
}

static int criu_restore_devices(struct process *p, const struct kfd_ioctl_criu_args *a)
{
	struct kfd_criu_device_bucket devices[GPUS];
	int r = 0;

	if (a->num_devices != GPUS)
		return -EINVAL;
	if (copy_from_user(devices, u64_to_user_ptr(a->devices), sizeof(devices)))
		return -EFAULT;
	for (int i = 0; i < GPUS && !r; i++) {
		u32 gpu = devices[i].actual_gpu_id - FIRST_ID;

		r = gpu < GPUS ? acquire(p, gpu, devices[i].drm_fd) : -EINVAL;
		if (!r)
			p->id[gpu] = devices[i].user_gpu_id;
	}
	return r;
}

static int criu_restore(struct process *p, const struct kfd_ioctl_criu_args *a)
{
	size_t before = sizeof(struct process_priv) + GPUS * sizeof(u64),
	       bytes = a->num_bos * sizeof(struct kfd_criu_bo_bucket);
	struct kfd_criu_bo_bucket *buckets;
	struct bo_priv *privs;
	char *data;
	int r;

	if (a->priv_data_size > MOST_BYTES || a->num_objects ||
	    a->priv_data_size != before + a->num_bos * sizeof(*privs))
		return -EINVAL;
	buckets = memdup_user(u64_to_user_ptr(a->bos), bytes);
	if (IS_ERR(buckets))
		return PTR_ERR(buckets);
	data = memdup_user(u64_to_user_ptr(a->priv_data), a->priv_data_size);
	if (IS_ERR(data)) {
		kfree(buckets);
		return PTR_ERR(data);
	}
	privs = (void *)(data + before);
	p->restored = true;
	r = criu_restore_devices(p, a);
	for (u32 i = 0; i < a->num_bos && !r; i++)
		r = criu_restore_bo(p, &buckets[i], &privs[i]);
	if (!r && copy_to_user(u64_to_user_ptr(a->bos), buckets, bytes))
		r = -EFAULT;
	kfree(buckets);
	kfree(data);
	return r;
}

static int criu_resume(u32 pid)
{
	struct process *p;
	int r = -ESRCH;

	if (!resumes)
		return -EIO;
	mutex_lock(&processes_lock);
	list_for_each_entry(p, &processes, list)
		if (task_tgid_vnr(p->lead) == pid) {
			r = p->restored ? 0 : -EINVAL;
			p->restored = false;
		}
	mutex_unlock(&processes_lock);
	return r;
}

static int criu_op(struct process *p, struct kfd_ioctl_criu_args *a)
{
	switch (a->op) {
	case KFD_CRIU_OP_PROCESS_INFO:
		if (p->paused)
			return -EINVAL;
		p->paused = true;
		criu_count(p, a);
		return 0;
	case KFD_CRIU_OP_CHECKPOINT:
		return criu_checkpoint(p, a);
	case KFD_CRIU_OP_UNPAUSE:
		if (!p->paused)
			return -EINVAL;
		p->paused = false;
		return 0;
	case KFD_CRIU_OP_RESTORE:
		return criu_restore(p, a);
	case KFD_CRIU_OP_RESUME:
		return criu_resume(a->pid);
	}
	return -EINVAL;
}

/* --- The device ----------------------------------------------------------------------------- */

static void process_free(struct kref *kref)
{
	struct process *p = container_of(kref, struct process, kref);
	struct bo *bo;
	int index;

	list_del(&p->list);
	for (int i = 0; i < GPUS; i++) {
		idr_for_each_entry(&p->bos[i], bo, index)
			bo_free(p, bo);
		idr_destroy(&p->bos[i]);
		if (p->render[i])
			fput(p->render[i]);
	}
	put_task_struct(p->lead);
	kfree(p);
}

static int kfd_open(struct inode *inode, struct file *file)
{
	struct process *p;
	int r = 0;

	mutex_lock(&processes_lock);
	list_for_each_entry(p, &processes, list)
		if (p->lead == current->group_leader) {
			kref_get(&p->kref);
			file->private_data = p;
			goto out;
		}
	p = kzalloc(sizeof(*p), GFP_KERNEL);
	if (!p) {
		r = -ENOMEM;
		goto out;
	}
	kref_init(&p->kref);
	mutex_init(&p->lock);
	p->lead = get_task_struct(current->group_leader);
	for (int i = 0; i < GPUS; i++) {
		idr_init(&p->bos[i]);
		p->id[i] = FIRST_ID + i;
	}
	list_add(&p->list, &processes);
	file->private_data = p;
out:
	mutex_unlock(&processes_lock);
	return r;
}

static int kfd_release(struct inode *inode, struct file *file)
{
	struct process *p = file->private_data;

	mutex_lock(&processes_lock);
	kref_put(&p->kref, process_free);
	mutex_unlock(&processes_lock);
	return 0;
}

/* The process itself; and, for its checkpoint, who has stopped it. */
static bool kfd_may(struct process *p, unsigned int nr)
{
	bool traced;

	if (p->lead == current->group_leader)
		return true;
	rcu_read_lock();
	traced = ptrace_parent(p->lead) == current;
	rcu_read_unlock();
	return nr == _IOC_NR(AMDKFD_IOC_CRIU_OP) && traced;
}

static int kfd_do(struct process *p, unsigned int nr, void *args)
{
	struct kfd_ioctl_get_version_args *version = args;
	struct kfd_ioctl_acquire_vm_args *vm = args;
	struct export_dmabuf *export = args;
	struct bo *bo;
	int r;

	switch (nr) {
	case _IOC_NR(AMDKFD_IOC_GET_VERSION):
		version->major_version = 1;
		version->minor_version = 12;
		return 0;
	case _IOC_NR(AMDKFD_IOC_ACQUIRE_VM):
		r = gpu_of(p, vm->gpu_id);
		return r < 0 ? r : acquire(p, r, vm->drm_fd);
	case _IOC_NR(AMDKFD_IOC_ALLOC_MEMORY_OF_GPU):
		/* So that a process that nobody has let go on is not taken for one that works. */
		return p->restored || p->paused ? -EIO : memory_alloc(p, args);
	case _IOC_NR(AMDKFD_IOC_FREE_MEMORY_OF_GPU):
		return memory_free(p, ((struct kfd_ioctl_free_memory_of_gpu_args *)args)->handle);
	case _IOC_NR(AMDKFD_IOC_MAP_MEMORY_TO_GPU):
		return memory_map(p, args);
	case _IOC_NR(AMDKFD_IOC_IMPORT_DMABUF):
		return memory_import(p, args);
	case _IOC_NR(AMDKFD_IOC_GET_DMABUF_INFO):
		return memory_info(p, args);
	case NR_EXPORT_DMABUF:
		bo = bo_find(p, export->handle);
		r = bo && bo->object ? bo_export(bo, export->flags) : -EINVAL;
		export->dmabuf_fd = r;
		return r < 0 ? r : 0;
	case _IOC_NR(AMDKFD_IOC_CRIU_OP):
		return capable(CAP_CHECKPOINT_RESTORE) ? criu_op(p, args) : -EACCES;
	}
	return -ENOTTY;
}

static long kfd_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct process *p = file->private_data;
	char args[128] __aligned(8) = {};
	size_t bytes = _IOC_SIZE(cmd);
	int r;

	if (_IOC_TYPE(cmd) != AMDKFD_IOCTL_BASE || bytes > sizeof(args))
		return -ENOTTY;
	if (!kfd_may(p, _IOC_NR(cmd)))
		return -EBADF;
	if (copy_from_user(args, (void __user *)arg, bytes))
		return -EFAULT;
	mutex_lock(&p->lock);
	r = kfd_do(p, _IOC_NR(cmd), args);
	mutex_unlock(&p->lock);
	if (!r && copy_to_user((void __user *)arg, args, bytes))
		r = -EFAULT;
	return r;
}

static int major;
static struct class *class;
static struct page *registers;

/* Registers: a page of nothing, of a GPU that the process has. */
static int kfd_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct process *p = file->private_data;
	u64 offset = (u64)vma->vm_pgoff << PAGE_SHIFT;

	if (p->lead != current->group_leader)
		return -EBADF;
	for (int i = 0; i < GPUS; i++)
		if (p->render[i] && offset == MMIO_OFFSET(p->id[i]))
			return vm_insert_page(vma, vma->vm_start, registers);
	return -EINVAL;
}

static const struct file_operations fops = {
	.owner = THIS_MODULE,
	.open = kfd_open,
	.release = kfd_release,
	.unlocked_ioctl = kfd_ioctl,
	.mmap = kfd_mmap,
};


/* An empty folder stands for the topology: who starts the guest mounts one there. */
static int __init kfd_begin(void)
{
	struct device *device;

	major = register_chrdev(0, "kfd", &fops);
	if (major < 0)
		return major;
	class = class_create(THIS_MODULE, "kfd");
	device = IS_ERR(class) ? ERR_CAST(class)
			       : device_create(class, NULL, MKDEV(major, 0), NULL, "kfd");
	registers = alloc_page(GFP_KERNEL | __GFP_ZERO);
	return registers && !IS_ERR(device) && kobject_create_and_add("topology", &device->kobj) ? 0 : -ENOMEM;
}

module_init(kfd_begin);
MODULE_DESCRIPTION("/dev/kfd without a GPU, for tests");
MODULE_LICENSE("GPL");
MODULE_IMPORT_NS(DMA_BUF);
