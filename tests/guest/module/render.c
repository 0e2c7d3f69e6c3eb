// SPDX-License-Identifier: GPL-2.0-only
/*
 * A DRM device that says it is amdgpu, without a GPU: what a checkpoint meets of a render node. Its
 * buffers are the kernel's own GEM objects in shared memory, so handles, their numbers, dma-bufs,
 * imports and mappings are those of any driver. Virtual addresses of the GPU are only remembered.
 *
 * It loads into a guest that is made for a test, and nowhere else: it checks no more than that asks.
 */
#include <drm/drm_drv.h>
#include <drm/drm_ioctl.h>
#include <drm/drm_prime.h>
#include <linux/delay.h>
#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include <uapi/drm/amdgpu_drm.h>

#include "render.h"

#define DEVICES_MOST 8
#define VA_BEGIN 0x10000ULL
#define VA_END (1ULL << 47)

static int devices = 2;
module_param(devices, int, 0444);
MODULE_PARM_DESC(devices, "how many render nodes there are");

static bool change_handle;
module_param(change_handle, bool, 0644);
MODULE_PARM_DESC(change_handle, "DRM_IOCTL_GEM_CHANGE_HANDLE is there and works");

static bool lists = true;
module_param(lists, bool, 0644);
MODULE_PARM_DESC(lists, "GEM_LIST_HANDLES and GET_MAPPING_INFO are there, as from Linux 6.18 on");

static int create_delay_ms;
module_param(create_delay_ms, int, 0644);
MODULE_PARM_DESC(create_delay_ms, "GEM_CREATE of what is aligned to more than a page takes so long");

/* Not in the headers of kernels that lack them. */
#define NR_GEM_CHANGE_HANDLE 0xd2
#define NR_GEM_LIST_HANDLES  0x19
#define OP_GET_MAPPING_INFO  2

struct change_handle {
	__u32 handle, new_handle;
};

struct list_handles {
	__u64 entries;
	__u32 num_entries, padding;
};

struct list_entry {
	__u32 handle, flags;
	__u64 size, preferred_domains, alloc_flags, alignment;
};

struct gem_op {
	__u32 handle, op;
	__u64 value;
	__u32 num_entries, padding;
};

/* --- Buffers -------------------------------------------------------------------------------- */

static int gem_create(struct drm_device *dev, void *data, struct drm_file *file)
{
	union drm_amdgpu_gem_create *args = data;
	struct drm_amdgpu_gem_create_in in = args->in;
	struct drm_gem_shmem_object *shmem;
	u32 handle;
	int r;

	if (!in.bo_size)
		return -EINVAL;
	if (create_delay_ms && in.alignment > PAGE_SIZE)
		msleep(create_delay_ms);
	shmem = drm_gem_shmem_create(dev, in.bo_size);
	if (IS_ERR(shmem))
		return PTR_ERR(shmem);
	to_buffer(&shmem->base)->domains = in.domains;
	to_buffer(&shmem->base)->flags = in.domain_flags;
	to_buffer(&shmem->base)->alignment = in.alignment;
	r = drm_gem_handle_create(file, &shmem->base, &handle);
	drm_gem_object_put(&shmem->base);
	if (!r)
		args->out.handle = handle;
	return r;
}

/* To the CPU, as it was made to be. */
static bool is_closed(struct drm_gem_object *object)
{
	return to_buffer(object)->flags & AMDGPU_GEM_CREATE_NO_CPU_ACCESS || to_buffer(object)->user;
}

static int gem_mmap_object(struct drm_gem_object *object, struct vm_area_struct *vma)
{
	return is_closed(object) ? -EPERM : drm_gem_shmem_object_mmap(object, vma);
}

static int gem_mmap(struct drm_device *dev, void *data, struct drm_file *file)
{
	union drm_amdgpu_gem_mmap *args = data;
	struct drm_gem_object *object = drm_gem_object_lookup(file, args->in.handle);
	int r;

	if (!object)
		return -ENOENT;
	r = is_closed(object) ? -EPERM : drm_gem_create_mmap_offset(object);
	args->out.addr_ptr = drm_vma_node_offset_addr(&object->vma_node);
	drm_gem_object_put(object);
	return r;
}

static void fill_entry(struct drm_gem_object *object, u32 handle, struct list_entry *ret)
{
	struct buffer *buffer = to_buffer(object);

	*ret = (struct list_entry){
		.handle = handle,
		.flags = object->import_attach ? 1 : 0,
		.size = object->size,
		.preferred_domains = object->import_attach ? AMDGPU_GEM_DOMAIN_GTT
							   : buffer->domains,
		.alloc_flags = buffer->flags,
		.alignment = buffer->alignment,
	};
}

static int gem_list(struct drm_device *dev, void *data, struct drm_file *file)
{
	struct list_handles *args = data;
	struct list_entry *entries = kcalloc(args->num_entries + 1, sizeof(*entries), GFP_KERNEL);
	struct drm_gem_object *object;
	u32 room = args->num_entries;
	int handle, r = 0;

	if (!entries)
		return -ENOMEM;
	args->num_entries = 0;
	spin_lock(&file->table_lock);
	idr_for_each_entry(&file->object_idr, object, handle)
		if (args->num_entries++ < room)
			fill_entry(object, handle, &entries[args->num_entries - 1]);
	spin_unlock(&file->table_lock);
	if (args->num_entries <= room &&
	    copy_to_user(u64_to_user_ptr(args->entries), entries,
			 args->num_entries * sizeof(*entries)))
		r = -EFAULT;
	kfree(entries);
	return r;
}

static int gem_metadata(struct drm_device *dev, void *data, struct drm_file *file)
{
	struct drm_amdgpu_gem_metadata *args = data;
	struct drm_gem_object *object = drm_gem_object_lookup(file, args->handle);
	int r = 0;

	if (!object)
		return -ENOENT;
	if (args->op == AMDGPU_GEM_METADATA_OP_GET_METADATA)
		args->data = to_buffer(object)->noted.data;
	else if (args->op != AMDGPU_GEM_METADATA_OP_SET_METADATA ||
		 args->data.data_size_bytes > sizeof(args->data.data))
		r = -EINVAL;
	else
		to_buffer(object)->noted = *args;
	drm_gem_object_put(object);
	return r;
}

/* --- Addresses ------------------------------------------------------------------------------ */

static void va_drop(struct vm *vm, struct drm_gem_object *object)
{
	struct va *va, *next;

	mutex_lock(&vm->lock);
	list_for_each_entry_safe(va, next, &vm->vas, list)
		if (!object || va->object == object) {
			list_del(&va->list);
			kfree(va);
		}
	mutex_unlock(&vm->lock);
}

static int va_map(struct vm *vm, struct drm_gem_object *object, const struct drm_amdgpu_gem_va *args)
{
	struct vm_entry entry = {args->va_address, args->map_size, args->offset_in_bo,
				 args->flags & ~AMDGPU_VM_DELAY_UPDATE};

	if (!args->map_size || args->va_address < VA_BEGIN || args->va_address >= VA_END ||
	    args->map_size > VA_END - args->va_address ||
	    (object && (args->offset_in_bo > object->size ||
			args->map_size > object->size - args->offset_in_bo)))
		return -EINVAL;
	return vm_add(vm, object, &entry);
}

static int va_unmap(struct vm *vm, struct drm_gem_object *object, u64 address)
{
	struct va *va;

	list_for_each_entry(va, &vm->vas, list)
		if (va->object == object && va->entry.addr == address) {
			list_del(&va->list);
			kfree(va);
			return 0;
		}
	return -ENOENT;
}

static int gem_va(struct drm_device *dev, void *data, struct drm_file *file)
{
	struct drm_amdgpu_gem_va *args = data;
	struct vm *vm = file->driver_priv;
	struct drm_gem_object *object = NULL;
	int r = -EINVAL;

	if (!(args->flags & AMDGPU_VM_PAGE_PRT)) {
		object = drm_gem_object_lookup(file, args->handle);
		if (!object)
			return -ENOENT;
	}
	mutex_lock(&vm->lock);
	if (args->operation == AMDGPU_VA_OP_MAP)
		r = va_map(vm, object, args);
	else if (args->operation == AMDGPU_VA_OP_UNMAP)
		r = va_unmap(vm, object, args->va_address);
	mutex_unlock(&vm->lock);
	if (object)
		drm_gem_object_put(object);
	return r;
}

static int gem_mappings(struct vm *vm, struct drm_gem_object *object, struct gem_op *args)
{
	struct vm_entry __user *to = u64_to_user_ptr(args->value);
	u32 room = args->num_entries, n = 0;
	struct va *va;
	int r = 0;

	mutex_lock(&vm->lock);
	list_for_each_entry(va, &vm->vas, list)
		if (va->object == object && n++ < room &&
		    copy_to_user(&to[n - 1], &va->entry, sizeof(va->entry)))
			r = -EFAULT;
	mutex_unlock(&vm->lock);
	args->num_entries = n;
	return r;
}

static int gem_op(struct drm_device *dev, void *data, struct drm_file *file)
{
	struct gem_op *args = data;
	struct drm_gem_object *object = drm_gem_object_lookup(file, args->handle);
	struct drm_amdgpu_gem_create_in in;
	struct list_entry entry;
	int r = -EINVAL;

	if (!object)
		return -ENOENT;
	if (args->op == AMDGPU_GEM_OP_GET_GEM_CREATE_INFO) {
		fill_entry(object, args->handle, &entry);
		in = (struct drm_amdgpu_gem_create_in){entry.size, entry.alignment,
						       entry.preferred_domains, entry.alloc_flags};
		r = copy_to_user(u64_to_user_ptr(args->value), &in, sizeof(in)) ? -EFAULT : 0;
	} else if (args->op == AMDGPU_GEM_OP_SET_PLACEMENT) {
		if ((object->import_attach && (args->value & AMDGPU_GEM_DOMAIN_VRAM)) ||
		    atomic_read(&to_buffer(object)->peers))
			r = -EINVAL;
		else
			r = to_buffer(object)->user ? -EPERM : 0;
		if (!r)
			to_buffer(object)->domains = args->value;
	} else if (args->op == OP_GET_MAPPING_INFO && lists) {
		r = gem_mappings(file->driver_priv, object, args);
	}
	drm_gem_object_put(object);
	return r;
}

static int info(struct drm_device *dev, void *data, struct drm_file *file)
{
	struct drm_amdgpu_info *args = data;
	struct drm_amdgpu_info_device device = {.family = AMDGPU_FAMILY_AI,
						.virtual_address_offset = VA_BEGIN,
						.virtual_address_max = VA_END,
						.virtual_address_alignment = PAGE_SIZE};
	u32 word = args->query == AMDGPU_INFO_ACCEL_WORKING;
	struct drm_amdgpu_info_hw_ip ip = {
		.available_rings = args->query_hw_ip.type == AMDGPU_HW_IP_DMA ? 3 : 0};
	const void *from = &word; /* a register of any number is 0 */
	size_t n = sizeof(word);

	if (args->query == AMDGPU_INFO_DEV_INFO) {
		from = &device;
		n = sizeof(device);
	} else if (args->query == AMDGPU_INFO_HW_IP_INFO) {
		from = &ip;
		n = sizeof(ip);
	} else if (args->query != AMDGPU_INFO_ACCEL_WORKING &&
		   args->query != AMDGPU_INFO_READ_MMR_REG) {
		return -EINVAL;
	}
	return copy_to_user(u64_to_user_ptr(args->return_pointer), from,
			    min_t(size_t, args->return_size, n)) ? -EFAULT : 0;
}

/* --- GEM_CHANGE_HANDLE, as it was before it was disabled ------------------------------------- */

/* drm_prime.c's own. */
struct prime_member {
	struct dma_buf *dma_buf;
	u32 handle;
	struct rb_node dmabuf_rb, handle_rb;
};

static void prime_change(struct drm_prime_file_private *prime, u32 from, u32 to)
{
	struct rb_node **at = &prime->handles.rb_node, *parent = NULL, *node;
	struct prime_member *member;

	for (node = rb_first(&prime->handles); node; node = rb_next(node)) {
		member = rb_entry(node, struct prime_member, handle_rb);
		if (member->handle == from)
			break;
	}
	if (!node)
		return;
	rb_erase(node, &prime->handles);
	member->handle = to;
	while (*at) {
		parent = *at;
		at = to < rb_entry(parent, struct prime_member, handle_rb)->handle
			     ? &parent->rb_left : &parent->rb_right;
	}
	rb_link_node(node, parent, at);
	rb_insert_color(node, &prime->handles);
}

static int gem_change_handle(struct drm_file *file, const struct change_handle *args)
{
	struct drm_gem_object *object;
	int r = -ENOENT;

	mutex_lock(&file->prime.lock);
	idr_preload(GFP_KERNEL);
	spin_lock(&file->table_lock);
	object = idr_find(&file->object_idr, args->handle);
	if (object && args->handle == args->new_handle)
		r = 0;
	else if (object)
		r = idr_alloc(&file->object_idr, object, args->new_handle, args->new_handle + 1,
			      GFP_NOWAIT);
	if (r > 0) {
		idr_remove(&file->object_idr, args->handle);
		prime_change(&file->prime, args->handle, args->new_handle);
	}
	spin_unlock(&file->table_lock);
	idr_preload_end();
	mutex_unlock(&file->prime.lock);
	return r < 0 ? r : 0;
}

/* What this kernel's DRM does not know comes here: a table of a driver has no room for it. */
static long amdgpu_ioctl(struct file *filp, unsigned int cmd, unsigned long arg)
{
	struct change_handle args;

	if (_IOC_TYPE(cmd) == DRM_IOCTL_BASE && _IOC_NR(cmd) == NR_GEM_CHANGE_HANDLE) {
		if (!change_handle)
			return -EINVAL;
		if (copy_from_user(&args, (void __user *)arg, sizeof(args)))
			return -EFAULT;
		return gem_change_handle(filp->private_data, &args);
	}
	if (_IOC_TYPE(cmd) == DRM_IOCTL_BASE &&
	    _IOC_NR(cmd) == DRM_COMMAND_BASE + NR_GEM_LIST_HANDLES && !lists)
		return -EINVAL;
	return drm_ioctl(filp, cmd, arg);
}

/* --- The device ----------------------------------------------------------------------------- */

static int amdgpu_open(struct drm_device *dev, struct drm_file *file)
{
	struct vm *vm = kzalloc(sizeof(*vm), GFP_KERNEL);

	if (!vm)
		return -ENOMEM;
	mutex_init(&vm->lock);
	INIT_LIST_HEAD(&vm->vas);
	idr_init(&vm->contexts);
	file->driver_priv = vm;
	return 0;
}

static void amdgpu_postclose(struct drm_device *dev, struct drm_file *file)
{
	va_drop(file->driver_priv, NULL);
	engine_close(file->driver_priv);
	kfree(file->driver_priv);
}

/* A handle goes, and with it what it is mapped at. */
static void gem_close(struct drm_gem_object *object, struct drm_file *file)
{
	va_drop(file->driver_priv, object);
}

/* As the real one: what says that it must not leave its file is not exported. */
static struct dma_buf *gem_export(struct drm_gem_object *object, int flags)
{
	if (to_buffer(object)->flags & AMDGPU_GEM_CREATE_VM_ALWAYS_VALID || to_buffer(object)->user)
		return ERR_PTR(-EPERM);
	return drm_gem_prime_export(object, flags);
}

static const struct drm_gem_object_funcs gem_funcs = {
	.free = drm_gem_shmem_object_free,
	.close = gem_close,
	.export = gem_export,
	.pin = drm_gem_shmem_object_pin,
	.unpin = drm_gem_shmem_object_unpin,
	.get_sg_table = drm_gem_shmem_object_get_sg_table,
	.vmap = drm_gem_shmem_object_vmap,
	.vunmap = drm_gem_shmem_object_vunmap,
	.mmap = gem_mmap_object,
	.vm_ops = &drm_gem_shmem_vm_ops,
};

static struct drm_gem_object *gem_allocate(struct drm_device *dev, size_t size)
{
	struct buffer *buffer = kzalloc(sizeof(*buffer), GFP_KERNEL);

	if (!buffer)
		return ERR_PTR(-ENOMEM);
	buffer->base.base.funcs = &gem_funcs;
	return &buffer->base.base;
}

#define ROW(nr, type, function)                                                        \
	[nr] = {.cmd = DRM_IOWR(DRM_COMMAND_BASE + (nr), type), .func = (function), \
		.flags = DRM_RENDER_ALLOW, .name = #function}

static const struct drm_ioctl_desc ioctls[] = {
	ROW(DRM_AMDGPU_GEM_CREATE, union drm_amdgpu_gem_create, gem_create),
	ROW(DRM_AMDGPU_GEM_MMAP, union drm_amdgpu_gem_mmap, gem_mmap),
	ROW(DRM_AMDGPU_INFO, struct drm_amdgpu_info, info),
	ROW(DRM_AMDGPU_GEM_VA, struct drm_amdgpu_gem_va, gem_va),
	ROW(DRM_AMDGPU_GEM_METADATA, struct drm_amdgpu_gem_metadata, gem_metadata),
	ROW(DRM_AMDGPU_GEM_OP, struct gem_op, gem_op),
	ROW(NR_GEM_LIST_HANDLES, struct list_handles, gem_list),
	ROW(DRM_AMDGPU_GEM_USERPTR, struct drm_amdgpu_gem_userptr, engine_userptr),
	ROW(DRM_AMDGPU_BO_LIST, union drm_amdgpu_bo_list, engine_list),
	ROW(DRM_AMDGPU_CTX, union drm_amdgpu_ctx, engine_context),
	ROW(DRM_AMDGPU_CS, union drm_amdgpu_cs, engine_submit),
	ROW(DRM_AMDGPU_WAIT_CS, union drm_amdgpu_wait_cs, engine_wait),
};

static const struct file_operations fops = {
	.owner = THIS_MODULE,
	.open = drm_open,
	.release = drm_release,
	.unlocked_ioctl = amdgpu_ioctl,
	.poll = drm_poll,
	.read = drm_read,
	.llseek = noop_llseek,
	.mmap = drm_gem_mmap,
};

static const struct drm_driver driver = {
	.driver_features = DRIVER_GEM | DRIVER_RENDER | DRIVER_SYNCOBJ | DRIVER_SYNCOBJ_TIMELINE,
	.name = "amdgpu",
	.desc = "amdgpu without a GPU, for tests",
	.date = "20260101",
	.major = 3,
	.minor = 64,
	.fops = &fops,
	.open = amdgpu_open,
	.postclose = amdgpu_postclose,
	.ioctls = ioctls,
	.num_ioctls = ARRAY_SIZE(ioctls),
	.gem_create_object = gem_allocate,
	DRM_GEM_SHMEM_DRIVER_OPS,
};

static struct {
	struct platform_device *platform;
	struct drm_device *drm;
} made[DEVICES_MOST];

static void amdgpu_remove(void)
{
	for (int i = 0; i < DEVICES_MOST; i++) {
		if (!IS_ERR_OR_NULL(made[i].drm)) {
			drm_dev_unregister(made[i].drm);
			drm_dev_put(made[i].drm);
		}
		if (!IS_ERR_OR_NULL(made[i].platform))
			platform_device_unregister(made[i].platform);
	}
}

static int amdgpu_add(int i)
{
	int r;

	made[i].platform = platform_device_register_simple("amdgpu-test", i, NULL, 0);
	if (IS_ERR(made[i].platform))
		return PTR_ERR(made[i].platform);
	r = dma_coerce_mask_and_coherent(&made[i].platform->dev, DMA_BIT_MASK(64));
	if (r)
		return r;
	made[i].drm = drm_dev_alloc(&driver, &made[i].platform->dev);
	if (IS_ERR(made[i].drm))
		return PTR_ERR(made[i].drm);
	return drm_dev_register(made[i].drm, 0);
}

static int __init amdgpu_begin(void)
{
	int r = 0;

	for (int i = 0; i < min(devices, DEVICES_MOST) && !r; i++)
		r = amdgpu_add(i);
	if (r)
		amdgpu_remove();
	return r;
}

static void __exit amdgpu_end(void)
{
	amdgpu_remove();
}

module_init(amdgpu_begin);
module_exit(amdgpu_end);
MODULE_DESCRIPTION("amdgpu's render nodes without a GPU, for tests");
MODULE_LICENSE("GPL");
